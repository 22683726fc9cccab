//! The walks over the disks of a node.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{disk_content, pod_usage};
use crate::host_path::{CallError, HostFs, Resolved};
use crate::model::{DiskContent, DiskUse, NodeDisk, PodDirUsage, Seen, Snapshot};
use crate::observe::{ObserveError, Observer, Places};

/// The directories beneath that of the runtime that have its store, besides the snapshots of containerd, and the volumes that images
/// declare: of containerd, and of CRI-O with each driver.
const STORE: [&str; 7] =
    ["io.containerd.content.v1.content", IMAGE_VOLUMES, "overlay", "overlay-images", "vfs", "vfs-images", "artifacts"];
/// The directory of containerd's containers, with the volumes that images declare.
const IMAGE_VOLUMES: &str = "io.containerd.grpc.v1.cri/containers";
/// How much longer than its time a walk may take to answer. Where processes wait for the processor, it waits longer than they do.
const GRACE: Duration = Duration::from_secs(5);

// === impl Observer ===

impl Observer {
    /// Measures the kubelet's directories of pods within a time, and the volumes that images declare.
    pub(in crate::observe) async fn pod_usage(&self, snapshot: &Snapshot, time: Duration) -> Seen<Vec<PodDirUsage>> {
        let pods = match snapshot.pod_dirs.result() {
            Ok(pods) => pods.clone(),
            Err(cause) => return Seen::NotSeen(cause.to_owned()),
        };
        let measure = move |_: &HostFs, at: &Path| pod_usage::measure(at, pods, time);
        match self.measure(self.places.kubelet_root.join("pods"), time, measure).await {
            Seen::Seen(usage) => self.add_image_volumes(usage.unwrap_or_default(), snapshot, time).await,
            failed => failed.map(Option::unwrap_or_default),
        }
    }

    /// Measures a directory of the host, which has this time; `None` = it does not exist.
    pub(in crate::observe) async fn measure<T: Send + 'static>(
        &self,
        directory: PathBuf,
        time: Duration,
        measure: impl FnOnce(&HostFs, &Path) -> io::Result<T> + Send + 'static,
    ) -> Seen<Option<T>> {
        let path = directory.clone();
        let call = move |host: &HostFs| match host.resolve(&path)? {
            Resolved::Exists(at) => measure(host, &at).map(Some),
            Resolved::Missing(_) => Ok(None),
        };
        let host = self.walks.with_limit(time.saturating_add(GRACE));
        let measured = host.run(&directory, call).await.map_err(ObserveError::from);
        measured.and_then(|read| read.map_err(|source| ObserveError::List { path: directory, source })).into()
    }

    /// Adds the volumes that images declare. Those of CRI-O are in the writable layers.
    async fn add_image_volumes(
        &self,
        usage: Vec<PodDirUsage>,
        snapshot: &Snapshot,
        time: Duration,
    ) -> Seen<Vec<PodDirUsage>> {
        let Some(images) = snapshot.image_filesystem.as_ref() else { return Seen::Seen(usage) };
        let directory = runtime_root(&images.mountpoint).join(IMAGE_VOLUMES);
        let containers = snapshot.listed_containers().into_iter().flatten();
        let pods = containers.filter_map(|one| Some((one.id.to_string(), one.pod.as_ref()?.uid.clone()))).collect();
        let add = {
            let usage = usage.clone();
            move |_: &HostFs, at: &Path| pod_usage::with_image_volumes(usage, at, &pods, time)
        };
        self.measure(directory, time, add).await.map(|added| added.unwrap_or(usage))
    }

    /// Looks at what else is on each disk, within a time.
    pub(in crate::observe) async fn disk_contents(&self, snapshot: &Snapshot, time: Duration) -> Vec<DiskContent> {
        let Places { kubelet_root, pod_logs, container_logs, .. } = self.places.clone();
        let pods = kubelet_root.join("pods");
        let images = snapshot.image_filesystem.as_ref().map(|disk| &disk.mountpoint);
        let directory = |of: &DiskUse| match of {
            DiskUse::Images => images.cloned().unwrap_or_default(),
            DiskUse::Logs => pod_logs.clone(),
            DiskUse::Kubelet => pods.clone(),
        };
        let disk = |disk: &NodeDisk| {
            let directories = disk.holds.iter().map(directory).collect();
            let used_bytes = disk.file_system.used_bytes();
            Some(disk_content::Disk { of: disk.name()?, directories, used_bytes })
        };
        let disks: Vec<_> = snapshot.disks.iter().filter_map(disk).collect();
        let measured = [pods.clone(), pod_logs.clone(), container_logs, self.places.archive.clone()];
        let runtime = images.map(|images| runtime_root(images));
        let store = runtime.iter().flat_map(|root| STORE.map(|name| root.join(name)));
        let store = store.chain(images.map(|images| images.join("snapshots"))).collect();
        let measured = measured.into_iter().chain(runtime.clone()).collect();
        let known = disk_content::Known { kubelet_root, measured, runtime, store };
        let names: Vec<_> = disks.iter().map(|disk| disk.of).collect();
        let look = move |host: &HostFs| disk_content::look(host, disks, &known, time);
        let looked = self.walks.with_limit(time.saturating_add(GRACE)).run(Path::new("/"), look).await;
        let failed = |error: CallError| {
            let none = |of| DiskContent { missing: vec![error.to_string()], ..DiskContent::of(of) };
            names.into_iter().map(none).collect()
        };
        looked.unwrap_or_else(failed)
    }
}

/// Returns the directory of the runtime from that of its images: containerd has `ROOT/io.containerd.snapshotter.v1.overlayfs`, and
/// CRI-O `ROOT/overlay-images`.
fn runtime_root(images: &Path) -> PathBuf {
    let is_part = |name: &str| name.starts_with("io.containerd.") || name.ends_with("-images");
    let name = images.file_name().map(|name| name.to_string_lossy().into_owned());
    let root = images.parent().filter(|_| name.is_some_and(|name| is_part(&name)));
    root.unwrap_or(images).to_owned()
}
