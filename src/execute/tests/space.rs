//! Tests of the reclaimed bytes of containers and sandboxes: measured, estimated and unknown.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tonic::Code;

use super::*;
use crate::model::FileSystem;
use crate::observe::ObserveError;
use crate::plan::Kind;
use crate::sim::{Fault, GIB, MIB, Times};

/// Two dead containers that wrote 80 MiB and 5 MiB, and their sandbox.
fn node() -> Node {
    let node = Node::new().disk(GIB, 0).image(WEB, &[("web", 8 * MIB)]).id("s1").pod("default", "web", "u1").stopped();
    let node = node.id("c1").exited("app", WEB).logging(5000).having_written(80 * MIB);
    node.id("c2").exited("app", WEB).logging(5000).having_written(5 * MIB)
}

fn actions() -> Vec<Action> {
    vec![exited("c1"), exited("c2"), sandbox("s1")]
}

/// A disk with a list of available bytes, one for each measurement. The last value repeats.
struct Disk(Vec<u64>, AtomicUsize);

#[async_trait]
impl Disks for Disk {
    async fn measure(&self, _: &Path) -> Result<FileSystem, ObserveError> {
        let number = self.1.fetch_add(1, Ordering::SeqCst).min(self.0.len().saturating_sub(1));
        let available = self.0.get(number).copied().ok_or(ObserveError::NoImageFilesystem)?;
        Ok(FileSystem { capacity_bytes: GIB, available_bytes: available, ..FileSystem::default() })
    }
}

fn disk(available: &[u64]) -> Arc<dyn Disks> {
    Arc::new(Disk(available.to_vec(), AtomicUsize::new(0)))
}

/// Carries out a step over containers and sandboxes. Returns its bytes, its measure and the reports.
async fn step(bench: &Bench, actions: Vec<Action>) -> (u64, Option<Measure>, Vec<Report>) {
    let (lines, reports, summary) = bench.carry_out_plan(&plan(actions)).await;
    assert!(lines.iter().all(|line| line.ends_with(" removed")), "{lines:?}");
    assert_eq!(summary.freed_bytes[&Kind::Sandbox], 0, "counted with the containers");
    (summary.freed_bytes[&Kind::Container], summary.measure.get(&Kind::Container).copied(), reports)
}

#[tokio::test]
async fn writable_layers_are_measured_together_and_estimated_individually() {
    let bench = Bench::new(node());
    let (bytes, measure, reports) = step(&bench, actions()).await;
    assert_eq!((bytes / MIB, measure), (85, Some(Measure::Measured)));
    let figures: Vec<_> = reports.iter().map(|it| (it.freed_bytes.map(|bytes| bytes / MIB), it.measure)).collect();
    let expected = [(Some(80), Measure::Estimated), (Some(5), Measure::Estimated), (None, Measure::Unknown)];
    assert_eq!(figures, expected);
    assert!(reports.iter().all(|report| report.measured_bytes().is_none()));
}

#[tokio::test]
async fn the_measurement_waits_for_deletion_by_the_runtime() {
    let mut bench = Bench::new(node());
    bench.options.space_settle = Duration::from_secs(30);
    bench.disks = Some(disk(&[100 * MIB, 100 * MIB, 100 * MIB, 180 * MIB, 185 * MIB]));
    let (bytes, measure, _) = step(&bench, actions()).await;
    assert_eq!((bytes / MIB, measure), (85, Some(Measure::Measured)));
}

#[tokio::test]
async fn log_files_on_the_layer_disk_count_once() {
    let log = usize::try_from(4 * MIB).unwrap();
    let bench = |available: &[u64]| {
        let node = Node::new().image(WEB, &[]).id("s1").pod("default", "web", "u1").stopped();
        let mut bench = Bench::new(node.id("c1").exited("app", WEB).logging(log).having_written(2 * MIB));
        bench.disks = Some(disk(available));
        bench
    };
    let (bytes, _, reports) = step(&bench(&[0, 6 * MIB]), vec![exited("c1"), sandbox("s1")]).await;
    assert_eq!((bytes, reports[0].freed_bytes.unwrap() / MIB), (6 * MIB, 6));
    let (bytes, _, _) = step(&bench(&[0, 0]), vec![exited("c1"), sandbox("s1")]).await;
    assert_eq!(bytes / MIB, 4, "the log files are gone, whatever others wrote meanwhile");
}

/// The disk of the layers is that of `/proc`.
#[tokio::test]
async fn log_files_on_another_disk_are_added() {
    let log = usize::try_from(4 * MIB).unwrap();
    let node = Node::new().image_mountpoint("/proc").image(WEB, &[]).id("s1").pod("default", "web", "u1").stopped();
    let mut bench = Bench::new(node.id("c1").exited("app", WEB).logging(log).having_written(2 * MIB));
    bench.disks = Some(disk(&[0, 2 * MIB]));
    let (bytes, _, reports) = step(&bench, vec![exited("c1"), sandbox("s1")]).await;
    assert_eq!(bytes, reports[0].freed_bytes.unwrap());
    assert!(bytes >= 6 * MIB, "{bytes}");
}

#[tokio::test]
async fn what_other_processes_delete_meanwhile_is_not_counted() {
    let mut bench = Bench::new(node());
    bench.disks = Some(disk(&[0, 700 * MIB]));
    let (bytes, measure, _) = step(&bench, actions()).await;
    let layers = 85 * MIB + 85 * MIB / 8;
    assert!((layers + 8000..layers + MIB).contains(&bytes), "the layers, an eighth, and the log files: {bytes}");
    assert_eq!(measure, Some(Measure::Measured));
}

#[tokio::test]
async fn sandboxes_without_containers_have_a_figure_of_their_own() {
    let bench = Bench::new(Node::new().id("s1").pod("default", "web", "u1").stopped());
    let (_, _, summary) = bench.carry_out_plan(&plan(vec![sandbox("s1")])).await;
    let measures: Vec<_> = summary.measure.into_iter().collect();
    assert_eq!(measures, [(Kind::Sandbox, Measure::Measured)]);
}

/// The layers never disappear. If all their sizes are known, they are awaited for longer.
#[tokio::test]
async fn the_wait_for_layer_removal_has_a_limit() {
    const SETTLE: Duration = Duration::from_millis(100);
    let elapsed = async |bench: &mut Bench| {
        bench.options.space_settle = SETTLE;
        bench.disks = Some(disk(&[0]));
        let begun = tokio::time::Instant::now();
        step(bench, actions()).await;
        begun.elapsed()
    };
    let mut bench = Bench::new(node());
    let known = elapsed(&mut bench).await;
    assert!(known >= 4 * SETTLE, "{known:?}");
    let mut bench = Bench::new(node());
    bench.sim.fault(Rpc::ListContainerStats, Fault::Fail(Code::Unimplemented), Times::Forever);
    let unknown = elapsed(&mut bench).await;
    assert!(unknown >= SETTLE, "{unknown:?}");
}

#[tokio::test]
async fn runtime_sizes_are_the_estimate_without_a_measurement() {
    let mut bench = Bench::new(node());
    bench.disks = Some(disk(&[]));
    let (bytes, measure, _) = step(&bench, actions()).await;
    assert_eq!((bytes / MIB, measure), (85, Some(Measure::Estimated)));
}

#[tokio::test]
async fn bytes_without_measurement_and_sizes_are_unknown() {
    let mut bench = Bench::new(node());
    bench.disks = Some(disk(&[]));
    bench.sim.fault(Rpc::ListContainerStats, Fault::Fail(Code::Unimplemented), Times::Forever);
    let (bytes, measure, reports) = step(&bench, actions()).await;
    assert!((8000..MIB).contains(&bytes), "the log files alone: {bytes}");
    assert_eq!(measure, Some(Measure::Unknown));
    assert_eq!((reports[0].freed_bytes, reports[0].measure), (None, Measure::Unknown));
}

#[tokio::test]
async fn a_pass_that_removes_nothing_has_no_reclaimed_bytes() {
    let bench = Bench::new(node());
    bench.sim.state().set_container_state("c1", ContainerState::Running);
    let (_, _, summary) = bench.carry_out_plan(&plan(vec![exited("c1")])).await;
    assert!(summary.freed_bytes[&Kind::Container] == 0 && summary.measure.is_empty(), "{:?}", summary.measure);
    bench.sim.forget_calls();
    bench.rehearse(vec![exited("c2")]).await;
    assert_eq!(bench.sim.calls_of(Rpc::ListContainerStats), Vec::<String>::new());
}
