//! The flags for namespaces, as kubectl has them.

use crate::model::{PodRef, Seen, Snapshot, pod_of_dir};

/// Flags that limit a command to a namespace.
#[derive(Debug, clap::Args)]
pub struct NamespaceArgs {
    /// Only objects of this namespace; an image has none
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Objects of all namespaces, which is the default
    #[arg(short = 'A', long)]
    all_namespaces: bool,
}

// === impl NamespaceArgs ===

impl NamespaceArgs {
    /// Returns the namespace; `None` = all. As in kubectl, `-A` overrides `-n`.
    pub(super) fn get(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|_| !self.all_namespaces)
    }
}

/// Returns the snapshot without what belongs to no pod or to a pod of another namespace.
pub(super) fn of_namespace(mut snapshot: Snapshot, namespace: &str) -> Snapshot {
    let is_in = |pod: Option<&PodRef>| pod.is_some_and(|pod| pod.namespace == namespace);
    snapshot.containers = limited(snapshot.containers, |one| is_in(one.pod.as_ref()));
    snapshot.sandboxes = limited(snapshot.sandboxes, |one| is_in(one.pod.as_ref()));
    snapshot.log_dirs = limited(snapshot.log_dirs, |dir| is_in(pod_of_dir(&dir.name).as_ref()));
    snapshot.images = limited(snapshot.images, |_| false);
    if let Seen::Seen(list) = &mut snapshot.pods {
        list.pods.retain(|pod| pod.namespace == namespace);
    }
    snapshot
}

fn limited<T>(list: Seen<Vec<T>>, is_kept: impl Fn(&T) -> bool) -> Seen<Vec<T>> {
    list.map(|mut all| {
        all.retain(is_kept);
        all
    })
}
