//! What a pod has left on a node: in the runtime, beneath the log roots, in the kubelet's directory.

use std::collections::BTreeSet;

use super::NodeRig;

/// The label by which runtime objects belong to a pod.
const POD_UID: &str = "io.kubernetes.pod.uid";

// === impl NodeRig ===

impl NodeRig {
    /// Everything of one pod that is left, in the words of [`crate::rig::Names`], and `kubelet dir`.
    pub async fn left_of(&self, pod: &str, uid: &str) -> BTreeSet<String> {
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

    /// The ids of a pod's containers of one name, oldest first.
    pub async fn containers_of(&self, uid: &str, name: &str) -> Vec<String> {
        let mut found = self.list_containers().await;
        found.retain(|it| {
            it.labels.get(POD_UID).is_some_and(|it| it == uid) && it.metadata.as_ref().unwrap().name == name
        });
        found.sort_by_key(|it| it.created_at);
        found.into_iter().map(|it| it.id).collect()
    }

    /// The uids of the pods of which the runtime has anything.
    pub async fn uids(&self) -> BTreeSet<String> {
        let sandboxes = self.list_sandboxes().await.into_iter().map(|it| it.labels);
        let containers = self.list_containers().await.into_iter().map(|it| it.labels);
        sandboxes.chain(containers).filter_map(|mut labels| labels.remove(POD_UID)).collect()
    }
}
