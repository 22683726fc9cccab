//! A test node: one containerd of a chosen version, or a CRI-O, with its own root, socket, cgroup, disk and log roots.
//!
//! Rigs are independent, so tests run in parallel. If a rig lacks something (root, loop devices, a package), the test
//! fails with the reason; nothing is skipped. Dropping a rig stops its runtime and everything that it started.

mod cell;
mod crio;
mod disk;
mod failure;
mod image;
mod in_turn;
mod kubegc;
mod names;
mod node;
mod pod;
mod registry;
mod state;
mod systemd;
mod versions;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ::kubegc::cri::generated as pb;
use hyper_util::rt::TokioIo;
use pb::containerd::leases;
use pb::image_service_client::ImageServiceClient;
use pb::runtime_service_client::RuntimeServiceClient;
use tonic::transport::{Channel, Endpoint, Uri};

use cell::{Cell, Order};
pub use disk::run;

pub use image::{Image, Layer, hex};
pub(crate) use in_turn::scenarios;
pub use in_turn::{Scenario, in_turn};
pub use kubegc::{Daemon, Ran, binary};
pub use names::Names;
pub use node::{
    Collection, Manifest, NodeRig, Options, Program, eventually, kubernetes_bins, kubernetes_minor, kubernetes_version,
    node_containerd, unique_address,
};
pub use pod::Pod;
pub use registry::Registry;
pub use systemd::Systemd;
pub use versions::Version;

/// The longest wait of a rig: every machine, however busy, is faster.
const PATIENCE: Duration = Duration::from_mins(3);

/// The default image of pods.
pub const APP: &str = "docker.io/library/app:1";

/// A node with a runtime.
pub struct Rig {
    version: Version,
    cgroup: String,
    channel: Channel,
    /// The socket of the runtime.
    socket: PathBuf,
    // Dropped in this order: the runtime with its disk, then the directory.
    cell: Cell,
    dir: tempfile::TempDir,
}

// === impl Rig ===

impl Rig {
    /// Starts a node on the disk of the temporary directory, with the sandbox image and [`APP`].
    pub async fn start(version: Version) -> Self {
        Self::start_on(version, |config| config, disk::plain).await
    }

    /// Starts the same with a limit on the messages that the runtime sends, in bytes.
    pub async fn start_with_send_limit(version: Version, bytes: usize) -> Self {
        let limit = format!("[grpc]\n  max_send_message_size = {bytes}\n");
        Self::start_on(version, |config| config.replace("[grpc]\n", &limit), disk::plain).await
    }

    /// Starts the same with an image file system of `mib` MiB.
    pub async fn start_on_small_disk(version: Version, mib: u64) -> Self {
        Self::start_on(version, |config| config, |dir| disk::small(dir, mib)).await
    }

    /// Starts the same. containerd removes what nothing refers to with an image only, and neither a moment after its start nor after a
    /// hundred changes.
    pub async fn start_with_leftovers(version: Version, mib: u64) -> Self {
        let rarely =
            "\n[plugins.\"io.containerd.gc.v1.scheduler\"]\n  mutation_threshold = 1000000\n  startup_delay = \"1h\"\n";
        Self::start_on(version, |config| config + rarely, |dir| disk::small(dir, mib)).await
    }

    /// Starts a node with a changed configuration of its runtime.
    async fn start_on(version: Version, change: impl FnOnce(String) -> String, disk: impl FnOnce(&Path)) -> Self {
        let bin = version.bin(); // reports what is missing, before anything is created
        let dir = tempfile::Builder::new().prefix("kubegc-rig-").tempdir().unwrap();
        let home = dir.path().join(version.program());
        disk(&home);
        for part in ["logs/pods", "logs/containers", "kubelet/pods"] {
            std::fs::create_dir_all(dir.path().join(part)).unwrap();
        }
        let config = dir.path().join("runtime.toml");
        let text = change(version.config(&home)).replace("{dir}", &home.display().to_string());
        std::fs::write(&config, &text).unwrap();
        let program = version.program();
        let mut shell = format!("PATH={0}:$PATH exec {program} --config {1}", bin.display(), config.display());
        if version == Version::Crio {
            shell = crio::prepare(dir.path(), &home, &text, &shell);
        }
        Cell::program(dir.path(), program, &shell);
        let rig = Self::with_cell(version, dir, unique_cgroup(), &format!("{program}/{program}.sock"));
        rig.begin().await;
        rig.import_basics().await;
        rig
    }

    /// Returns a rig with its programs and an open cell. Nothing runs.
    fn with_cell(version: Version, dir: tempfile::TempDir, cgroup: String, socket: &str) -> Self {
        let socket = dir.path().join(socket);
        let cell = Cell::open(dir.path(), &cgroup);
        Self { version, channel: channel(socket.clone()), cgroup, socket, cell, dir }
    }

    async fn import_basics(&self) {
        let layers = [Layer::busybox()];
        self.import(&[Image::new(&[&self.version.sandbox_image()], &layers), Image::new(&[APP], &layers)]).await;
    }

    /// Stops the runtime gracefully and starts it again. Its pods continue to run.
    pub async fn restart(&self) {
        self.stop();
        self.begin().await;
    }

    /// Kills the runtime and starts it again. Its pods continue to run.
    pub async fn crash_and_restart(&self) {
        self.cell.order(Order::Kill, self.version.program());
        self.begin().await;
    }

    /// Stops the runtime. Its socket file remains without a listener.
    pub fn stop(&self) {
        self.cell.order(Order::Stop, self.version.program());
    }

    /// Starts the runtime after [`Rig::stop`] and waits until it answers.
    pub async fn begin(&self) {
        assert!(std::os::unix::net::UnixStream::connect(&self.socket).is_err(), "an earlier runtime still runs");
        self.cell.order(Order::Start, self.version.program());
        let runtime = self.runtime();
        let answers = async || runtime.clone().version(pb::VersionRequest::default()).await.is_ok();
        assert!(becomes_true(answers).await, "the runtime does not answer; its log ends with\n{}", self.log_end());
    }

    /// Imports images with the runtime's own tool and waits until the CRI lists them. An agent beside the test may remove
    /// an image before that.
    pub async fn import(&self, images: &[Image]) {
        if self.version == Version::Crio {
            return self.copy_to_storage(images);
        }
        let archive = tempfile::NamedTempFile::new_in(self.dir.path()).unwrap();
        image::write_archive(images, archive.as_file());
        self.ctr(&["images", "import", "--snapshotter", "overlayfs", archive.path().to_str().unwrap()]);
        let mut awaited: Vec<_> = images.iter().flat_map(Image::tags).collect();
        let listed = async || {
            let present = self.ctr(&["images", "list", "--quiet"]);
            let listed: Vec<_> = self.list_images().await.into_iter().flat_map(|image| image.repo_tags).collect();
            awaited.retain(|tag| present.lines().any(|name| name == **tag) && !listed.contains(tag));
            awaited.is_empty()
        };
        let are_listed = becomes_true(listed).await;
        assert!(are_listed, "the CRI does not list {awaited:?}; containerd says\n{}", self.log_end());
    }

    /// Imports images for another client of the runtime, in a namespace of its own.
    pub fn import_to(&self, namespace: &str, images: &[Image]) {
        let archive = tempfile::NamedTempFile::new_in(self.dir.path()).unwrap();
        image::write_archive(images, archive.as_file());
        let path = archive.path().to_str().unwrap();
        run(self.ctr_command(namespace).args(["images", "import", "--snapshotter", "overlayfs", path]));
    }

    /// Runs the version's own `ctr` in the CRI's namespace.
    pub fn ctr(&self, args: &[&str]) -> String {
        run(self.ctr_command("k8s.io").args(args))
    }

    /// Returns a command of the version's own `ctr` in a namespace.
    pub fn ctr_command(&self, namespace: &str) -> Command {
        let mut command = Command::new(self.version.bin().join("ctr"));
        command.arg("--address").arg(&self.socket).args(["--namespace", namespace]);
        command
    }

    /// Adds a blob to a lease. `ctr` cannot do it.
    pub async fn lease_blob(&self, lease: &str, digest: &str) {
        let resource = leases::Resource { id: digest.to_owned(), r#type: "content".to_owned() };
        let message = leases::AddResourceRequest { id: lease.to_owned(), resource: Some(resource) };
        let mut request = tonic::Request::new(message);
        request.metadata_mut().insert("containerd-namespace", "k8s.io".parse().unwrap());
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        let path = "/containerd.services.leases.v1.Leases/AddResource".parse().unwrap();
        let codec = tonic_prost::ProstCodec::<leases::AddResourceRequest, leases::Empty>::default();
        grpc.unary(request, path, codec).await.unwrap();
    }

    /// Returns a client of the runtime service.
    pub fn runtime(&self) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.channel.clone())
    }

    /// Returns a client of the image service.
    pub fn images(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.channel.clone())
    }

    /// Lists all containers.
    pub async fn list_containers(&self) -> Vec<pb::Container> {
        self.runtime().list_containers(pb::ListContainersRequest::default()).await.unwrap().into_inner().containers
    }

    /// Lists all sandboxes.
    pub async fn list_sandboxes(&self) -> Vec<pb::PodSandbox> {
        self.runtime().list_pod_sandbox(pb::ListPodSandboxRequest::default()).await.unwrap().into_inner().items
    }

    /// Lists all images.
    pub async fn list_images(&self) -> Vec<pb::Image> {
        self.images().list_images(pb::ListImagesRequest::default()).await.unwrap().into_inner().images
    }

    /// Returns the used space of the runtime's disk in percent, measured.
    pub fn used_percent(&self) -> f64 {
        let disk = nix::sys::statvfs::statvfs(&self.home()).unwrap();
        #[expect(clippy::cast_precision_loss, reason = "a percentage for a comparison")]
        let available = disk.blocks_available() as f64 / disk.blocks() as f64;
        100.0 - 100.0 * available
    }

    /// Returns the endpoint of the runtime.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Returns the pod log root.
    pub fn pod_logs(&self) -> PathBuf {
        self.dir.path().join("logs/pods")
    }

    /// Returns the container log root, the directory of the symlinks.
    pub fn container_logs(&self) -> PathBuf {
        self.dir.path().join("logs/containers")
    }

    /// Returns the directory for everything that is not the runtime's.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the directory of the runtime.
    pub fn home(&self) -> PathBuf {
        self.dir().join(self.version.program())
    }

    /// Returns the images that containerd removed on request, in that order, from its own log.
    pub fn removed_images(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.dir().join("containerd.log")).unwrap();
        let shown = log.lines().filter_map(|line| line.split_once(r#"msg="RemoveImage \""#)?.1.strip_suffix(r#"\"""#));
        shown.map(str::to_owned).collect()
    }

    /// Removes a container.
    pub async fn remove_container(&self, id: &str) {
        let request = pb::RemoveContainerRequest { container_id: id.to_owned() };
        self.runtime().remove_container(request).await.unwrap();
    }

    /// Returns the last lines of the runtime's log, without its notices.
    fn log_end(&self) -> String {
        let log = std::fs::read_to_string(self.home().with_extension("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().filter(|line| !line.contains("level=info")).collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

/// Polls every few milliseconds until `ask` is true. Returns false after [`PATIENCE`].
pub async fn becomes_true(ask: impl AsyncFnMut() -> bool) -> bool {
    becomes_true_within(PATIENCE, ask).await
}

/// Does the same with another limit.
pub async fn becomes_true_within(patience: Duration, mut ask: impl AsyncFnMut() -> bool) -> bool {
    let since = Instant::now();
    while since.elapsed() < patience {
        if ask().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

/// Returns a cgroup that no other rig has, in this process or another.
fn unique_cgroup() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("/kubegc-rig-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns a channel that connects at the first call, and again at the first call after a restart.
fn channel(socket: PathBuf) -> Channel {
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { tokio::net::UnixStream::connect(socket).await.map(TokioIo::new) }
    }))
}
