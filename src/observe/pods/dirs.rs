//! The kubelet's directories of pods and whether they belong to the kubelet that runs here, and the identity of the machine.
//!
//! With a wrong `kubelet_root` no pod has a directory, and one of the proofs that a pod is deleted is lost (I11). The
//! running pods show it: the kubelet creates a pod's directory before its sandbox and keeps it while anything of the
//! pod runs.
//!
//! Where nothing runs, at least the directory of pods must exist.
//!
//! The identity of this machine, compared with that of a Node object, proves the node name where an empty list of pods meets running pods.
//! Boot id and machine id are compared, and neither may differ: nodes that are containers of one host share the boot id, cloned disks share
//! the machine id.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::known_running;
use crate::host_path::{HostFs, Resolved};
use crate::kubernetes::NodeInfo;
use crate::model::{Container, PodUid, Sandbox, Seen};
use crate::observe::{ObserveError, log_files as logs};

/// Roots of kubelets besides the default, `/var/lib/kubelet`.
const OTHER_ROOTS: [&str; 4] = [
    // k0s
    "/var/lib/k0s/kubelet",
    // MicroK8s
    "/var/snap/microk8s/common/var/lib/kubelet",
    // VMware Tanzu Kubernetes Grid Integrated Edition
    "/var/vcap/data/kubelet",
    // IBM Cloud Kubernetes Service
    "/var/data/kubelet",
];

/// The directories of pods beneath a kubelet's root.
#[derive(Debug, Default)]
pub struct PodDirs {
    /// The pods that have a directory.
    pub uids: Vec<PodUid>,
    directory: PathBuf,
    is_missing: bool,
    /// Another root of a kubelet with directories of pods.
    other_root: Option<&'static str>,
}

// === impl PodDirs ===

impl PodDirs {
    /// Lists the directories of pods of a host. A missing directory counts as empty, as on a host without a kubelet.
    ///
    /// # Errors
    ///
    /// The directory cannot be listed.
    pub fn list(host: &HostFs, kubelet_root: &Path) -> Result<Self, ObserveError> {
        let directory = kubelet_root.join("pods");
        let resolved = host.resolve(&directory);
        let has_pods = |root: &str| host.exists(&Path::new(root).join("pods")).unwrap_or(false);
        let is_other = |root: &&'static str| kubelet_root != Path::new(root) && has_pods(root);
        let other_root = OTHER_ROOTS.into_iter().find(|root| is_other(root));
        match resolved {
            Ok(Resolved::Exists(at)) => Ok(Self { uids: uids(&at)?, directory, is_missing: false, other_root }),
            Ok(Resolved::Missing(_)) => Ok(Self { uids: Vec::new(), directory, is_missing: true, other_root }),
            Err(source) => Err(ObserveError::List { path: directory, source }),
        }
    }

    /// Returns the pods that have a directory of the kubelet that runs here; unavailable if its root must be another
    /// one, or if the root has no directory of pods.
    pub fn of_running(self, containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> Seen<Vec<PodUid>> {
        let running: HashSet<_> = known_running(containers, sandboxes).map(|pod| &pod.uid).collect();
        if !running.is_empty() && !self.uids.iter().any(|uid| running.contains(uid)) {
            let cause = format!("no running pod has a directory in {}", self.directory.display());
            return Seen::NotSeen(self.with_hint(&cause));
        }
        if self.is_missing {
            let source = io::ErrorKind::NotFound.into();
            let cause = ObserveError::List { path: self.directory.clone(), source }.to_string();
            return Seen::NotSeen(self.with_hint(&cause));
        }
        Seen::Seen(self.uids)
    }

    fn with_hint(&self, cause: &str) -> String {
        match self.other_root {
            Some(root) => format!("{cause}; hint: set kubelet_root = \"{root}\""),
            None => format!("{cause}; hint: set kubelet_root to the --root-dir of the kubelet"),
        }
    }
}

/// Returns the uids for which the kubelet has a directory. Every entry counts: more entries are safer.
pub fn uids(directory: &Path) -> Result<Vec<PodUid>, ObserveError> {
    let mut uids: Vec<PodUid> = logs::entries(directory)?.into_iter().map(|(name, _)| name.into()).collect();
    uids.sort();
    Ok(uids)
}

/// The kernel's id of this boot, the same in every container.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Where the kubelet reads the machine id by default (`--machine-id-file`).
const MACHINE_IDS: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
/// Longer than any of these ids.
const LONGEST_ID_BYTES: u64 = 256;

/// The ids of this machine, as far as they can be read.
#[derive(Debug)]
pub(super) struct Machine {
    boot: Option<String>,
    machine: Option<String>,
}

// === impl Machine ===

impl Machine {
    /// Reads the ids of the host.
    pub fn of_host(host: &HostFs) -> Self {
        let on_host = |path: &&str| id(&host.resolve(path.as_ref()).ok()?.existing()?);
        Self { boot: id(BOOT_ID.as_ref()), machine: MACHINE_IDS.iter().find_map(on_host) }
    }

    /// Returns whether the Node object belongs to this machine: at least one id is the same, and none differs. One id
    /// alone may be shared: nodes that are containers of one host share the boot id, and cloned disks share the machine
    /// id.
    pub fn is(&self, node: &NodeInfo) -> bool {
        let compared = [same(self.boot.as_ref(), &node.boot_id), same(self.machine.as_ref(), &node.machine_id)];
        compared.contains(&Some(true)) && !compared.contains(&Some(false))
    }
}

/// Returns whether two ids are the same; `None` = one of them is unknown.
fn same(here: Option<&String>, there: &str) -> Option<bool> {
    let there = there.trim();
    here.filter(|_| !there.is_empty()).map(|here| here.eq_ignore_ascii_case(there))
}

fn id(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(LONGEST_ID_BYTES).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}
