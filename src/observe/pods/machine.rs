//! The identity of this machine, compared with that of a Node object.
//!
//! It proves the node name where an empty list of pods meets running pods. Boot id and machine id are compared, and
//! neither may differ: nodes that are containers of one host share the boot id, cloned disks share the machine id.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::host_path::HostFs;
use crate::kubernetes::NodeInfo;

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
