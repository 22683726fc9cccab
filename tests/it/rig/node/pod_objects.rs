//! The objects of a pod on a node: in the runtime, beneath the log roots, in the kubelet's directory.

use std::collections::BTreeSet;

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};

use super::NodeRig;

/// The label with the pod uid of runtime objects.
const POD_UID: &str = "io.kubernetes.pod.uid";

// === impl NodeRig ===

impl NodeRig {
    /// Returns all objects of one pod, as [`crate::rig::Names`] names them, and `kubelet dir`.
    pub async fn objects_of(&self, pod: &str, uid: &str) -> BTreeSet<String> {
        let names = self.names().await.words();
        let container = format!("container {pod}/");
        let sandbox = format!("sandbox {pod}#");
        let logs = format!("_{pod}_{uid}");
        let ours = |name: &String| name.starts_with(&container) || name.starts_with(&sandbox) || name.contains(&logs);
        let mut left: BTreeSet<_> = names.into_iter().filter(ours).collect();
        if self.dir().join("kubelet/pods").join(uid).exists() {
            left.insert("kubelet dir".to_owned());
        }
        left
    }

    /// Returns the objects with these names, in the format of [`crate::rig::Names`], that exist on the node.
    pub async fn present(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        self.names().await.words().intersection(names).cloned().collect()
    }

    /// Returns the IDs of a pod's containers of one name, oldest first.
    pub async fn containers_of(&self, uid: &str, name: &str) -> Vec<String> {
        let mut found = self.list_containers().await;
        found.retain(|it| {
            it.labels.get(POD_UID).is_some_and(|it| it == uid) && it.metadata.as_ref().unwrap().name == name
        });
        found.sort_by_key(|it| it.created_at);
        found.into_iter().map(|it| it.id).collect()
    }

    /// Returns the uids of the pods with objects in the runtime.
    pub async fn uids(&self) -> BTreeSet<String> {
        let sandboxes = self.list_sandboxes().await.into_iter().map(|it| it.labels);
        let containers = self.list_containers().await.into_iter().map(|it| it.labels);
        sandboxes.chain(containers).filter_map(|mut labels| labels.remove(POD_UID)).collect()
    }

    /// Returns everything that belongs to no pod of the API: by uid the objects in the runtime and the kubelet's
    /// directories, by name the entries beneath the log roots, and dangling log symlinks. For nodes without static
    /// pods.
    pub async fn without_pod(&self) -> BTreeSet<String> {
        // The pods are listed last, so that an object created meanwhile belongs to a pod in the list.
        let mut found: Vec<_> = self.uids().await.into_iter().map(|uid| (format!("runtime {uid}"), uid)).collect();
        found.extend(entries(&self.dir().join("kubelet/pods")).map(|uid| (format!("kubelet dir {uid}"), uid)));
        found.extend(entries(&self.pod_logs()).map(|name| (format!("log dir {name}"), last_part(&name))));
        found.extend(entries(&self.container_logs()).map(|name| {
            let leads_to = self.leads_to(&self.container_logs().join(&name));
            (format!("log link {name}"), leads_to.unwrap_or_default())
        }));
        let pods: Api<Pod> = Api::all(self.kube());
        let pods = pods.list(&ListParams::default()).await.unwrap();
        let existing: BTreeSet<_> = pods.items.into_iter().filter_map(|pod| pod.metadata.uid).collect();
        found.into_iter().filter(|(_, uid)| !existing.contains(uid)).map(|(what, _)| what).collect()
    }

    /// Returns the uid of the pod to whose log a symlink points, if that log exists.
    fn leads_to(&self, link: &Path) -> Option<String> {
        let target = link.read_link().ok()?;
        let log = target.strip_prefix("/var/log/pods").ok()?;
        let dir = log.iter().next()?.to_str()?;
        self.pod_logs().join(log).exists().then(|| last_part(dir))
    }
}

fn entries(dir: &Path) -> impl Iterator<Item = String> {
    std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap())
}

/// Returns the uid in the name of a log directory.
fn last_part(name: &str) -> String {
    name.rsplit('_').next().unwrap_or_default().to_owned()
}
