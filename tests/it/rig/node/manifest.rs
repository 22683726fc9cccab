//! Pods as manifests, in few words: on the host network, with images that are there already.

use serde_json::{Value, json};

use crate::rig::APP;

/// A pod to be created, of the namespace `default`.
#[derive(Clone, Debug)]
pub struct Manifest(Value);

// === impl Manifest ===

impl Manifest {
    /// A pod without containers, restarted always, that ends at once when it is deleted.
    pub fn new(name: &str) -> Self {
        Self(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "namespace": "default" },
            "spec": {
                "hostNetwork": true,
                "terminationGracePeriodSeconds": 1,
                "tolerations": [{ "operator": "Exists" }],
                "initContainers": [],
                "containers": [],
            },
        }))
    }

    /// With `Always`, `OnFailure` or `Never`.
    pub fn restart(mut self, policy: &str) -> Self {
        self.0["spec"]["restartPolicy"] = json!(policy);
        self
    }

    /// With a container that runs a shell script.
    pub fn container(self, name: &str, script: &str) -> Self {
        self.add("containers", name, script)
    }

    /// With a container that runs until it is told to end, and then does so at once.
    pub fn running(self, name: &str) -> Self {
        self.container(name, "trap 'exit 0' TERM; sleep 1000000 & wait")
    }

    /// With an init container that runs a shell script.
    pub fn init(self, name: &str, script: &str) -> Self {
        self.add("initContainers", name, script)
    }

    /// The container added last, with another image than [`APP`].
    pub fn image(mut self, tag: &str) -> Self {
        self.last()["image"] = json!(tag);
        self
    }

    /// The container added last runs a script before it is stopped, and the pod has so many seconds to end.
    pub fn pre_stop(mut self, script: &str, grace: u32) -> Self {
        self.last()["lifecycle"] = json!({ "preStop": { "exec": { "command": ["/bin/sh", "-c", script] } } });
        self.0["spec"]["terminationGracePeriodSeconds"] = json!(grace);
        self
    }

    /// Changed in a way that has no word of its own here.
    pub fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.0);
        self
    }

    /// The pod's name.
    pub fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap()
    }

    /// The manifest of a static pod.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The pod as it is created through the API, bound to a node.
    pub fn bound_to(&self, node: &str) -> Value {
        let mut pod = self.0.clone();
        pod["spec"]["nodeName"] = json!(node);
        pod
    }

    fn add(mut self, list: &str, name: &str, script: &str) -> Self {
        let container = json!({
            "name": name,
            "image": APP,
            "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", script],
        });
        self.0["spec"][list].as_array_mut().unwrap().push(container);
        self
    }

    fn last(&mut self) -> &mut Value {
        self.0["spec"]["containers"].as_array_mut().unwrap().last_mut().unwrap()
    }
}
