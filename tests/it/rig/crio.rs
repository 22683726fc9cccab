//! CRI-O as the runtime of a rig. `scripts/crio.sh` prepares its programs.
//!
//! Everything is in the directory of the rig. Two paths cannot be configured: the cell has /etc/containers and
//! /var/lib/containers in its memory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::cell::Cell;
use super::{Image, Rig, Version, image, run};

/// The name of the image that it runs in sandboxes.
pub(super) const PAUSE: &str = "registry.k8s.io/pause:3.10.1";

// === impl Rig ===

impl Rig {
    /// Starts a node with CRI-O, and with changed settings: the first text of each pair is replaced with the second.
    pub async fn start_crio(changes: &[(&str, &str)]) -> Self {
        Self::start_on(Version::Crio, |config| changed(config, changes), super::disk::plain).await
    }

    /// Starts the same with all files of CRI-O on a disk of `mib` MiB.
    pub async fn start_crio_on_small_disk(mib: u64) -> Self {
        Self::start_on(Version::Crio, |config| config, |dir| super::disk::small(dir, mib)).await
    }

    /// Starts the same with images in a store of their own, on a disk of `mib` MiB.
    pub async fn start_crio_with_a_store_of_images(mib: u64) -> Self {
        let split = [("storage_driver = ", "imagestore = \"{dir}/images\"\nstorage_driver = ")];
        let disk = |dir: &Path| super::disk::small(&dir.join("images"), mib);
        Self::start_on(Version::Crio, |config| changed(config, &split), disk).await
    }

    /// Returns whether the runtime has a `ctr`.
    pub(super) fn has_ctr(&self) -> bool {
        self.version != Version::Crio
    }

    /// Copies images to the storage of CRI-O, which lists them from then on.
    pub(super) fn copy_to_storage(&self, images: &[Image]) {
        let archive = tempfile::NamedTempFile::new_in(self.dir()).unwrap();
        image::write_archive(images, archive.as_file());
        for (image, tag) in images.iter().flat_map(|image| image.tags().iter().map(move |tag| (image, tag))) {
            let source = format!("docker-archive:{}:{}", archive.path().display(), image.tags()[0]);
            self.copy_image(&source, tag);
        }
    }

    /// Copies an image under a tag.
    fn copy_image(&self, source: &str, tag: &str) {
        let bin = Version::Crio.bin();
        if !bin.join("copyimg").exists() {
            let [root, runroot] = self.storage();
            let to = format!("containers-storage:[{}@{}+{}]{tag}", self.driver(), root.display(), runroot.display());
            run(self.storage_tool(&bin.join("skopeo")).args(["copy", "--insecure-policy", source, &to]));
            return;
        }
        let mut copy = self.storage_tool(&bin.join("copyimg"));
        copy.arg("--signature-policy").arg(self.home().join("policy.json"));
        for (option, value) in ["--root", "--runroot"].iter().zip(self.storage()) {
            copy.arg(option).arg(value);
        }
        run(copy.args(["--storage-driver", &self.driver(), "--image-name", tag, "--import-from", source]));
    }

    /// Makes a container in the storage that CRI-O does not list, as podman does. Returns its ID.
    pub fn container_of_another_client(&self, image: &str, name: &str) -> String {
        let tool = Version::Crio.bin().join("mkctr");
        assert!(
            tool.exists(),
            "the CRI-O that KUBEGC_CRIO names has no mkctr, which makes containers of other clients"
        );
        let store = self.setting("imagestore").unwrap_or_default();
        let mut command = self.storage_tool(&tool);
        command.env("IMAGESTORE", store).args(self.storage());
        let output = run(command.args([self.driver().as_str(), image, name]));
        output.split_whitespace().next().unwrap().to_owned()
    }

    /// Returns a command for a tool that opens the storage. It has mounts of its own: such a tool unmounts the storage at its
    /// end, and CRI-O needs the mount.
    fn storage_tool(&self, tool: &Path) -> Command {
        let mut command = self.cell.command("unshare");
        command.arg("--mount").arg(tool).envs(environment(&self.home()));
        command
    }

    /// Returns the directories of the storage: for images and layers, and for the state until the next boot.
    pub fn storage(&self) -> [PathBuf; 2] {
        ["root", "runroot"].map(|part| self.home().join(part))
    }

    fn driver(&self) -> String {
        self.setting("storage_driver").unwrap()
    }

    /// Returns a setting of CRI-O.
    fn setting(&self, name: &str) -> Option<String> {
        let config = std::fs::read_to_string(self.dir().join("runtime.toml")).unwrap();
        setting(&config, name).map(str::to_owned)
    }
}

fn setting<'a>(config: &'a str, name: &str) -> Option<&'a str> {
    config.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
}

/// Returns the directory with CRI-O, conmon, runc, pinns and the tools for its storage.
pub(super) fn bin() -> &'static Path {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    BIN.get_or_init(|| {
        let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/crio.sh")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        String::from_utf8(output.stdout).unwrap().trim_end().into()
    })
}

/// Prepares the directory of a rig, and returns the command that starts CRI-O with this configuration.
pub(super) fn prepare(dir: &Path, home: &Path, config: &str, shell: &str) -> String {
    std::fs::write(dir.join("enter"), ENTER).unwrap();
    Cell::program(dir, "runc", &RUNC.replace("{bin}", &bin().display().to_string()));
    for part in ["tmp", "crio.conf.d", "policies", "cni", "hooks", "empty"] {
        std::fs::create_dir_all(home.join(part)).unwrap();
    }
    std::fs::write(home.join("policy.json"), r#"{ "default": [{ "type": "insecureAcceptAnything" }] }"#).unwrap();
    let store = setting(config, "imagestore").map(|store| format!("imagestore = \"{store}\"\n")).unwrap_or_default();
    let driver = setting(config, "storage_driver").unwrap();
    std::fs::write(home.join("storage.conf"), format!("[storage]\ndriver = \"{driver}\"\n{store}")).unwrap();
    let variables = environment(home).map(|(name, value)| format!("{name}={}", value.display())).join(" ");
    format!("export {variables}\n{shell} --config-dir {}", home.join("crio.conf.d").display())
}

/// Returns the variables of CRI-O and of the tools for its storage. Without them they read the configuration of the machine.
fn environment(home: &Path) -> [(&'static str, PathBuf); 2] {
    [("CONTAINERS_STORAGE_CONF", home.join("storage.conf")), ("TMPDIR", home.join("tmp"))]
}

/// Returns the configuration of a CRI-O that has all its files in `dir`.
pub(super) fn config(dir: &Path) -> String {
    let (dir, bin) = (dir.display().to_string(), bin().display().to_string());
    CONFIG.replace("{dir}", &dir).replace("{bin}", &bin).replace("{pause}", PAUSE)
}

fn changed(mut config: String, changes: &[(&str, &str)]) -> String {
    for (from, to) in changes {
        assert!(config.contains(from), "the configuration has no {from}");
        config = config.replace(from, to);
    }
    config
}

/// Gives the cell the paths that CRI-O has no setting for: a cache of image copies, and the registries of short names. Without
/// the latter it answers that a name is ambiguous, and not that there is no such image.
const ENTER: &str = r#"
mkdir -p "$dir/memory"
mount -t tmpfs tmpfs "$dir/memory"
for top in etc var/lib; do
  mkdir -p "$dir/memory/$top/"{changes/containers,work}
  mount -t overlay overlay -o "lowerdir=/$top,upperdir=$dir/memory/$top/changes,workdir=$dir/memory/$top/work" "/$top"
done
echo 'unqualified-search-registries = ["docker.io"]' >/etc/containers/registries.conf
"#;

/// Runs runc. CRI-O protects the process of a sandbox from the OOM killer, which a machine without `CAP_SYS_RESOURCE` does not
/// permit.
const RUNC: &str = r#"
previous=
for word in "$@"; do
  [ "$previous" != --bundle ] || sed -i 's/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/' "$word/config.json"
  previous=$word
done
exec {bin}/runc "$@"
"#;

/// It starts containers without systemd, and nothing of a pod's network.
const CONFIG: &str = r#"
[crio]
root = "{dir}/root"
runroot = "{dir}/runroot"
storage_driver = "overlay"
log_dir = "{dir}/logs"
version_file = "{dir}/version-of-boot"
version_file_persist = "{dir}/version"
clean_shutdown_file = "{dir}/clean-shutdown"
[crio.api]
listen = "{dir}/crio.sock"
stream_address = "127.0.0.1"
stream_port = "0"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
conmon_cgroup = ""
seccomp_profile = ""
apparmor_profile = "unconfined"
selinux = false
disable_hostport_mapping = true
pinns_path = "{bin}/pinns"
namespaces_dir = "{dir}/namespaces"
container_exits_dir = "{dir}/exits"
container_attach_socket_dir = "{dir}/attach"
hooks_dir = ["{dir}/hooks"]
cdi_spec_dirs = ["{dir}/empty"]
decryption_keys_path = "{dir}/empty"
irqbalance_config_file = "{dir}/empty/irqbalance"
irqbalance_config_restore_file = "disable"
[crio.runtime.runtimes.runc]
runtime_path = "{dir}/../start/runc"
runtime_root = "{dir}/runc"
monitor_path = "{bin}/conmon"
monitor_cgroup = "pod"
[crio.image]
pause_image = "{pause}"
pause_command = ""
pinned_images = []
signature_policy = "{dir}/policy.json"
signature_policy_dir = "{dir}/policies"
big_files_temporary_dir = "{dir}/tmp"
namespaced_auth_dir = "{dir}/empty"
short_name_mode = "disabled"
[crio.network]
network_dir = "{dir}/cni"
plugin_dirs = ["{dir}/cni"]
[crio.nri]
enable_nri = false
[crio.metrics]
enable_metrics = false
"#;
