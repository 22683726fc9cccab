//! Builds pod manifests: on the host network, with images that exist on the node.

use serde_json::{Value, json};

use crate::rig::APP;

/// A pod to create in the namespace `default`.
#[derive(Clone, Debug)]
pub struct Manifest(Value);

// === impl Manifest ===

impl Manifest {
    /// Creates a pod without containers, with the default restart policy and a grace period of 1 s.
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

    /// Sets the restart policy: `Always`, `OnFailure` or `Never`.
    pub fn restart(mut self, policy: &str) -> Self {
        self.0["spec"]["restartPolicy"] = json!(policy);
        self
    }

    /// Adds a container that runs a shell script.
    pub fn container(self, name: &str, script: &str) -> Self {
        self.add("containers", name, script)
    }

    /// Adds a container that runs until it is stopped, and then exits immediately.
    pub fn running(self, name: &str) -> Self {
        self.container(name, "trap 'exit 0' TERM; sleep 1000000 & wait")
    }

    /// Adds an init container that runs a shell script.
    pub fn init(self, name: &str, script: &str) -> Self {
        self.add("initContainers", name, script)
    }

    /// Sets the image of the container added last, instead of [`APP`].
    pub fn image(mut self, tag: &str) -> Self {
        self.last()["image"] = json!(tag);
        self
    }

    /// Sets a script that runs before the container added last is stopped, and the pod's grace period in seconds.
    pub fn pre_stop(mut self, script: &str, grace: u32) -> Self {
        self.last()["lifecycle"] = json!({ "preStop": { "exec": { "command": ["/bin/sh", "-c", script] } } });
        self.0["spec"]["terminationGracePeriodSeconds"] = json!(grace);
        self
    }

    /// Makes any other change.
    pub fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.0);
        self
    }

    /// Returns the pod's name.
    pub fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap()
    }

    /// Returns the manifest of a static pod.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Returns the pod for creation through the API, bound to a node.
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
