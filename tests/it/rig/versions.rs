//! The runtimes and where they are installed. `scripts/containerd.sh` downloads the versions of containerd, and
//! `scripts/crio.sh` prepares the CRI-O that a variable names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::crio;

/// A runtime that the tests run on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    /// Debian 12.
    V1_6,
    /// Debian 13.
    V1_7,
    /// Debian unstable.
    V2,
    /// The CRI-O that `KUBEGC_CRIO` names.
    Crio,
}

// === impl Version ===

impl Version {
    /// Returns the name in `scripts/containerd.sh`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1_6 => "1.6",
            Self::V1_7 => "1.7",
            Self::V2 => "2",
            Self::Crio => "CRI-O",
        }
    }

    /// Returns the name of the runtime's program.
    pub(super) fn program(self) -> &'static str {
        if self == Self::Crio { "crio" } else { "containerd" }
    }

    /// Returns the directory with the runtime and its tools.
    pub fn bin(self) -> PathBuf {
        if self == Self::Crio { crio::bin().to_owned() } else { fetched(self.name()).join("bin") }
    }

    /// Returns the configuration of a runtime that has all its files in `dir`.
    ///
    /// The disabled plugins would leave directories in /opt and /var/run. A machine without `CAP_SYS_RESOURCE` needs
    /// `restrict_oom_score_adj`.
    pub fn config(self, dir: &Path) -> String {
        let template = match self {
            Self::V1_6 | Self::V1_7 => CONFIG_2,
            Self::V2 => CONFIG_3,
            Self::Crio => return crio::config(dir),
        };
        template.replace("{dir}", &dir.display().to_string())
    }

    /// Returns the name of the image that it runs in sandboxes.
    pub fn sandbox_image(self) -> String {
        if self == Self::Crio {
            return crio::PAUSE.to_owned();
        }
        let name = read(&fetched(self.name()).join("sandbox-image"));
        String::from_utf8(name).unwrap().trim_end().to_owned()
    }
}

/// Returns a static busybox, from which images are made.
pub fn busybox() -> Vec<u8> {
    read(&fetched("busybox").join("busybox"))
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns where the script installed `name`. The script uses the network only the first time, and reports what is
/// missing if it cannot work.
fn fetched(name: &str) -> &'static Path {
    static DIRS: OnceLock<BTreeMap<String, PathBuf>> = OnceLock::new();
    let dirs = DIRS.get_or_init(|| {
        let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/containerd.sh")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().filter_map(|line| line.split_once('\t')).map(|(name, dir)| (name.into(), dir.into())).collect()
    });
    dirs.get(name).unwrap_or_else(|| panic!("scripts/containerd.sh knows no {name}"))
}

const CONFIG_2: &str = r#"
version = 2
root = "{dir}/root"
state = "{dir}"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp", "io.containerd.nri.v1.nri",
]
[grpc]
  address = "{dir}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{dir}/cni/bin"
  conf_dir = "{dir}/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
"#;

const CONFIG_3: &str = r#"
version = 3
root = "{dir}/root"
state = "{dir}"
disabled_plugins = [
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.differ.v1.erofs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.nri.v1.nri",
]
[grpc]
  address = "{dir}/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{dir}/cni/bin"]
  conf_dir = "{dir}/cni/net.d"
"#;
