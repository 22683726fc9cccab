//! A pod that writes much, beside the kubelet's rotation of its logs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kube::api::LogParams;

use super::DEFAULT_LIMITS;
use crate::on_node::service::Service;
use crate::rig::{Manifest, NodeRig, Options};

/// Writes 25 numbered lines of a kilobyte a second. They do not become much smaller when the kubelet compresses them: what gzip
/// remembers is shorter than their circle. Few programs run, so that a busy machine writes as much.
const WRITES: &str = "lines=$(/bin/busybox head -c 49152 /dev/urandom | /bin/busybox base64 -w 1024); n=0; \
    while :; do for line in $lines; do n=$((n+1)); echo \"$n $line\"; [ $((n%5)) != 0 ] || sleep 0.2; done; done";
const LIMIT: u64 = 150 << 10;

/// The container of a pod, and its log files.
struct Writer<'a> {
    node: &'a NodeRig,
    directory: PathBuf,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_writes_much_stays_within_the_limit_of_its_logs() {
    // The kubelet looks for logs to rotate every 3 s, and keeps more of them than the limit.
    let kubelet_flags = ["--container-log-max-size=40Ki", "--container-log-max-files=50"].map(str::to_owned).to_vec();
    let node = super::start(Options { kubelet_flags, ..Options::default() }).await;
    let uid = node.create(&Manifest::new("writer").container("app", WRITES)).await;
    node.await_running("writer", "app").await;
    let writer = Writer { node: &node, directory: node.pod_logs().join(format!("default_writer_{uid}/app")) };
    let limit = format!("logs.limits=pod {LIMIT}B");
    let service = Service::start(&node, "kubegc", &[&DEFAULT_LIMITS[..], &[limit.as_str()]].concat());
    let removed = || service.deeds().get("log_file over_log_limit removed").copied().unwrap_or_default();
    service.until("removed logs", async || removed() >= 2).await;
    let (line, newest) = (writer.last_line().await, writer.files().into_keys().next_back().unwrap());
    service.until("logs within the limit", async || writer.files().values().sum::<u64>() <= LIMIT).await;
    service.until("another rotation", async || writer.files().into_keys().next_back().unwrap() > newest).await;
    service.until("later lines", async || writer.last_line().await > line).await;
    assert!(writer.files().contains_key("0.log"), "{:?}", writer.files());
    assert_eq!(node.container_status("writer", "app").await.restart_count, 0);
    let other: Vec<_> = service.deeds().into_keys().filter(|deed| deed.contains("failed")).collect();
    assert_eq!(other, Vec::<String>::new());
    super::report(&service);
}

// === impl Writer ===

impl Writer<'_> {
    /// Returns the names of the log files with their sizes.
    fn files(&self) -> BTreeMap<String, u64> {
        let entries = std::fs::read_dir(&self.directory).unwrap().map(Result::unwrap);
        // The kubelet may remove or rename one meanwhile.
        let size =
            |entry: std::fs::DirEntry| Some((entry.file_name().into_string().unwrap(), entry.metadata().ok()?.len()));
        entries.filter_map(size).collect()
    }

    /// Returns the number of the last line, as the API server shows it. Right after a rotation the log is empty.
    async fn last_line(&self) -> u64 {
        let log = self.node.pods().logs("writer", &LogParams { tail_lines: Some(1), ..LogParams::default() }).await;
        log.unwrap().split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default()
    }
}
