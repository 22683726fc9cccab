//! All that reads what comes from outside, as functions of bytes. cargo-fuzz feeds them random input guided by coverage
//! (`scripts/fuzz.sh`), and a test replays the inputs that it found (`tests/it/corpus.rs`).

mod api_server;
mod documents;
mod kubelet;
mod logs;
mod runtime;
mod settings;
mod texts;

use std::sync::LazyLock;

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// A reader. An input that it must refuse is no error; a panic is one.
pub type Reader = fn(&[u8]);

/// The readers by name.
pub const READERS: [(&str, Reader); 23] = [
    ("kubeconfig", settings::kubeconfig),
    ("kubelet_config", settings::kubelet_config),
    ("crictl_config", settings::crictl_config),
    ("snapshot", documents::snapshot),
    ("plan", documents::plan),
    ("trace", documents::trace),
    ("cluster_snapshot", documents::cluster_snapshot),
    ("cluster_plan", documents::cluster_plan),
    ("pods_snapshot", documents::pods_snapshot),
    ("policies", documents::policies),
    ("rules", documents::rules),
    ("pause", documents::pause),
    ("listed_images", documents::listed_images),
    ("archived_pod", logs::archived_pod),
    ("log_lines", logs::log_lines),
    ("compressed_log", logs::compressed_log),
    ("log_names", logs::log_names),
    ("image_names", texts::image_names),
    ("quiet_hours", texts::quiet_hours),
    ("api_server", api_server::api_server),
    ("kubelet", kubelet::kubelet),
    ("runtime", runtime::runtime),
    ("containerd", runtime::containerd),
];

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().expect("tokio"));

fn dir() -> TempDir {
    tempfile::tempdir().expect("a directory")
}
