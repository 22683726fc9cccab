use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use tonic::Code;

use super::*;
use crate::model::FileSystem;
use crate::plan::ImageTrigger;
use crate::sim::{Fault, GIB, MIB, Times};

fn id_of(name: &str) -> String {
    format!("sha256:{name}{name}")
}

fn tag_of(name: &str) -> String {
    format!("docker.io/library/{name}:1")
}

/// A disk of 1 GiB with images a, b, c and so on, of 100 MiB each. `shared` MiB of each are the same layer.
fn images(count: u8, shared: u64) -> Node {
    (b'a'..b'a' + count).map(|name| char::from(name).to_string()).fold(Node::new().disk(GIB, 0), |node, name| {
        node.id(&id_of(&name)).image(&tag_of(&name), &[("base", shared * MIB), (&name, (100 - shared) * MIB)])
    })
}

fn image(name: &str, reason: RemoveReason) -> Action {
    let target = Target::RemoveImage {
        id: id_of(name).into(),
        tags: vec![tag_of(name)],
        digests: Vec::new(),
        estimated_bytes: 100 * MIB,
    };
    target.remove(reason)
}

fn unused(name: &str) -> Action {
    image(name, RemoveReason::Unused { pressure: false })
}

fn for_space(name: &str) -> Action {
    image(name, RemoveReason::Space { high_threshold_percent: 85, used_percent: 90 })
}

/// Returns a plan for space, with the planned images, the fallback candidates, and the target.
fn space(planned: &[&str], reserve: &[&str], stop_at: u64) -> Plan {
    let reserve = reserve.iter().map(|name| for_space(name)).collect();
    let images = ImageSummary {
        triggered_by: Some(ImageTrigger::PercentUsed),
        stop_at_available_bytes: stop_at,
        reserve,
        ..ImageSummary::default()
    };
    Plan { images, ..plan(planned.iter().map(|name| for_space(name)).collect()) }
}

#[tokio::test]
async fn an_image_goes_and_what_came_back_is_measured() {
    let bench = Bench::new(images(2, 40));
    let (lines, reports, summary) = bench.carry_out_plan(&plan(vec![unused("a"), unused("b")])).await;
    assert_eq!(lines, ["sha256:aa removed", "sha256:bb removed"]);
    let freed: Vec<_> = reports.iter().map(|report| report.freed_bytes).collect();
    assert_eq!(freed, [Some(60 * MIB), Some(100 * MIB)], "the shared layer is freed with its last image");
    assert!(reports.iter().all(|report| report.measure == Measure::Measured), "{reports:?}");
    assert_eq!(summary.freed_bytes[&crate::plan::Kind::Image], 160 * MIB);
}

/// A target of 0 is none: as under pressure, when every unused image goes.
#[tokio::test]
async fn without_a_target_no_free_space_is_enough() {
    let bench = Bench::new(images(2, 0));
    let (lines, ..) = bench.carry_out_plan(&space(&["a", "b"], &[], 0)).await;
    assert_eq!(lines, ["sha256:aa removed", "sha256:bb removed"]);
}

/// Returns a plan for two images that reclaim something only together, and one more.
fn together() -> Plan {
    let plan = space(&["a", "b", "c"], &[], GIB / 2);
    let sets = vec![vec![id_of("a").into(), id_of("b").into()]];
    Plan { images: ImageSummary { together: sets, ..plan.images }, ..plan }
}

#[tokio::test]
async fn a_set_of_images_is_removed_whole_or_not() {
    let bench = Bench::new(images(6, 0));
    bench.sim.state().set_other_bytes(GIB / 2 - 450 * MIB);
    bench.sim.on_call(Rpc::RemoveImage, 1, |node| node.set_other_bytes(0));
    let (lines, ..) = bench.carry_out_plan(&together()).await;
    assert_eq!(lines, ["sha256:aa removed", "sha256:bb removed", "sha256:cc not_needed"], "enough after the first");

    let bench = Bench::new(images(6, 0));
    bench.sim.fault(Rpc::RemoveImage, Fault::Fail(Code::Internal), Times::N(1));
    let (lines, ..) = bench.carry_out_plan(&together()).await;
    assert!(lines[0].starts_with("sha256:aa failed"), "{lines:?}");
    let rest = ["sha256:bb refused: an image with the same layers was not removed", "sha256:cc removed"];
    assert_eq!(lines[1..], rest);
}

#[tokio::test]
async fn an_image_used_since_the_plan_is_kept() {
    let uses: [fn(Node) -> Node; 3] = [
        |node| node.pod("default", "web", "u1").created("app", &tag_of("a")),
        |node| node.pod("default", "web", "u1").exited("app", &id_of("a")),
        |node| node.pod("default", "web", "u1").running("app", &tag_of("b")).mounting(&tag_of("a")),
    ];
    for start in uses {
        let bench = Bench::new(images(2, 0));
        bench.sim.on_call(Rpc::ListContainers, 1, move |node| node.also(start).unwrap());
        assert_eq!(bench.carry_out(vec![unused("a")]).await, ["sha256:aa refused: a container uses it"]);
        assert_eq!(bench.writes(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_container_uses_its_original_and_currently_named_image() {
    // The tag moved from b to a after the container was created.
    let moved = |node: Node| {
        let node = node.id(&id_of("b")).image("docker.io/library/app:1", &[]);
        let node = node.pod("default", "web", "u1").exited("app", "docker.io/library/app:1");
        node.id(&id_of("a")).image("docker.io/library/app:1", &[])
    };
    for name in ["a", "b"] {
        let bench = Bench::new(moved(Node::new()));
        let mut action = unused(name);
        action.target =
            Target::RemoveImage { id: id_of(name).into(), tags: Vec::new(), digests: Vec::new(), estimated_bytes: 0 };
        assert_eq!(bench.carry_out(vec![action]).await, [format!("{} refused: a container uses it", id_of(name))]);
    }
}

#[tokio::test]
async fn volumes_of_planned_containers_are_not_queried_again() {
    let old = |node: Node| node.ago(Duration::from_mins(5)).pod("default", "web", "u1").running("app", &tag_of("b"));
    let bench = Bench::new(old(images(2, 0)));
    assert_eq!(bench.carry_out(vec![unused("a")]).await, ["sha256:aa removed"]);
    assert_eq!(bench.sim.calls_of(Rpc::ContainerStatus), Vec::<String>::new());
}

#[tokio::test]
async fn a_pinned_image_is_kept_despite_the_plan() {
    let bench = Bench::new(images(1, 0).pinned());
    let lines = bench.carry_out(vec![unused("a"), unused("b")]).await;
    assert_eq!(lines, ["sha256:aa refused: it is pinned", "sha256:bb already_removed"]);
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn an_image_stays_when_the_containers_cannot_be_listed() {
    let bench = Bench::new(images(1, 0));
    bench.sim.fault(Rpc::ListContainers, Fault::Fail(Code::Internal), Times::Forever);
    let lines = bench.carry_out(vec![unused("a")]).await;
    assert!(lines[0].starts_with("sha256:aa failed: ListContainers"), "{lines:?}");
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn an_image_still_present_after_removal_is_a_failure() {
    let bench = Bench::new(images(1, 0));
    bench.sim.on_call(Rpc::ImageStatus, 2, |node| {
        node.also(|node| node.id(&id_of("a")).image(&tag_of("a"), &[("a", MIB)])).unwrap();
    });
    let (lines, reports, _) = bench.carry_out_plan(&plan(vec![unused("a")])).await;
    assert!(lines[0].starts_with("sha256:aa failed: the runtime reported "), "{lines:?}");
    assert_eq!(reports[0].freed_bytes, None);
}

#[tokio::test]
async fn the_collection_stops_at_its_measured_target() {
    // 600 of 1024 MiB are used and the target is 624 MiB free. Two images are exactly enough, whatever the plan
    // contains.
    let bench = Bench::new(images(6, 0));
    let mut plan = space(&["a", "b", "c"], &["d"], 624 * MIB);
    plan.actions.push(unused("e"));
    let (lines, _, summary) = bench.carry_out_plan(&plan).await;
    assert_eq!(lines, ["sha256:aa removed", "sha256:bb removed", "sha256:cc not_needed", "sha256:ee removed"]);
    assert_eq!(bench.sim.state().image_ids(), ["c", "d", "f"].map(id_of));
    assert_eq!((summary.shortfall_bytes, summary.total().removed), (0, 3));
}

#[tokio::test]
async fn fallback_candidates_are_removed_until_enough_is_free() {
    // Each image except the last reclaims 20 MiB. 424 MiB are free at first.
    let bench = Bench::new(images(6, 80));
    let free = bench.sim.disk().available_bytes;
    let (lines, _, summary) = bench.carry_out_plan(&space(&["a"], &["b", "c", "d"], free + 50 * MIB)).await;
    assert_eq!(lines, ["sha256:aa removed", "sha256:bb removed", "sha256:cc removed"]);
    assert_eq!(summary.shortfall_bytes, 0);
}

#[tokio::test]
async fn a_reserve_that_is_not_enough_is_reported() {
    let bench = Bench::new(images(2, 0));
    let free = bench.sim.disk().available_bytes;
    let (lines, _, summary) = bench.carry_out_plan(&space(&["a"], &["b"], free + 250 * MIB)).await;
    assert_eq!(lines, ["sha256:aa removed", "sha256:bb removed"]);
    assert_eq!(summary.shortfall_bytes, 50 * MIB);
}

#[tokio::test]
async fn without_a_measurement_fallback_candidates_are_kept() {
    let bench = Bench::new(images(3, 0));
    bench.sim.fault(Rpc::ImageFsInfo, Fault::Fail(Code::Internal), Times::Forever);
    let (lines, reports, _) = bench.carry_out_plan(&space(&["a"], &["b"], GIB)).await;
    assert_eq!(lines, ["sha256:aa removed"]);
    assert_eq!(reports[0].freed_bytes, None);
}

#[tokio::test]
async fn space_that_comes_back_late_spares_the_reserve() {
    let mut bench = Bench::new(images(3, 0));
    bench.options.space_settle = Duration::from_millis(1);
    // In order: before and after the removal of a, below the target, still below it after the wait, before and after
    // the removal of b, below the target, above it after the wait, and the final measurement.
    let measures = Arc::new(Mutex::new(VecDeque::from([10, 20, 20, 20, 20, 30, 30, 50, 50])));
    let left = Arc::clone(&measures);
    let next = move || left.lock().unwrap().pop_front().expect("measured too often");
    let disks = DiskFn(move || FileSystem { available_bytes: next(), ..FileSystem::default() });
    let executor = Executor { disks: Arc::new(disks), ..bench.live() };
    let mut reports = Vec::new();
    let plan = space(&["a"], &["b", "c"], 50);
    let summary =
        executor.carry_out(&plan, &CancellationToken::new(), &mut |report: Report| reports.push(report)).await;
    assert_eq!(reports.iter().map(lines).collect::<Vec<_>>(), ["sha256:aa removed", "sha256:bb removed"]);
    assert_eq!(reports.iter().map(|report| report.freed_bytes).collect::<Vec<_>>(), [Some(10), Some(10)]);
    assert_eq!(summary.shortfall_bytes, 0);
    assert!(measures.lock().unwrap().is_empty());
}

/// A pod source with these pods in memory.
struct InMemory(Vec<crate::model::Pod>);

#[async_trait]
impl PodSource for InMemory {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn list(
        &self,
        _: &Seen<Vec<crate::model::Container>>,
        _: &Seen<Vec<crate::model::Sandbox>>,
    ) -> Seen<crate::model::PodList> {
        Seen::default()
    }

    async fn cached_pods(&self) -> Vec<crate::model::Pod> {
        self.0.clone()
    }
}

#[tokio::test]
async fn a_failed_container_status_keeps_only_its_pod_images() {
    let pod =
        crate::model::Pod { uid: "u1".into(), images: vec![tag_of("c"), tag_of("a")], ..crate::model::Pod::default() };
    let mut bench = Bench::new(images(3, 0).pod("default", "web", "u1").id("c1").running("app", &tag_of("c")));
    bench.sim.fault_of(Rpc::ContainerStatus, "c1", Fault::Fail(Code::Internal), Times::Forever);
    bench.options.keeps_pod_images = false;
    bench.pods = Arc::new(InMemory(vec![pod]));
    let lines = bench.carry_out(vec![unused("a"), unused("b")]).await;
    assert_eq!(lines, ["sha256:aa refused: a container uses it", "sha256:bb removed"]);

    bench.pods = Arc::new(InMemory(Vec::new()));
    let lines = bench.carry_out(vec![unused("a")]).await;
    assert!(lines[0].starts_with("sha256:aa failed: ContainerStatus"), "{lines:?}");
}

#[tokio::test]
async fn image_volumes_of_exited_containers_are_not_queried() {
    let bench = Bench::new(images(2, 0).pod("default", "web", "u1").exited("app", &tag_of("b")));
    bench.sim.fault(Rpc::ContainerStatus, Fault::Fail(Code::Internal), Times::Forever);
    assert_eq!(bench.carry_out(vec![unused("a")]).await, ["sha256:aa removed"]);
}

#[tokio::test]
async fn too_many_containers_are_rechecked_in_parts() {
    let mut node = images(3, 0).send_limit(3000).pod("default", "web", "u1").exited("app", &tag_of("b"));
    for pod in 0..10 {
        node = node.pod("default", &format!("job-{pod}"), &format!("j{pod}")).exited("app", &tag_of("c"));
    }
    let bench = Bench::new(node);
    let lines = bench.carry_out(vec![unused("a"), unused("b")]).await;
    assert_eq!(lines, ["sha256:aa removed", "sha256:bb refused: a container uses it"]);
}

/// A disk of 100 GiB with so much free space, on a machine that waits for I/O in so much of the time.
struct BusyDisk {
    free_percent: u64,
    io_percent: f64,
}

#[async_trait]
impl Disks for BusyDisk {
    async fn measure(&self, _: &Path) -> Result<FileSystem, crate::observe::ObserveError> {
        Ok(FileSystem { capacity_bytes: 100 * GIB, available_bytes: self.free_percent * GIB, ..FileSystem::default() })
    }

    async fn io_pressure(&self) -> Option<f64> {
        Some(self.io_percent)
    }
}

/// Returns a plan for two images with a pause between them.
fn paced(pause_seconds: u64) -> Plan {
    let pace = Some(crate::plan::Pace { pause_seconds, ..Default::default() });
    let plan = plan(vec![unused("a"), unused("b")]);
    Plan { images: ImageSummary { pace, ..plan.images }, ..plan }
}

#[tokio::test]
async fn the_pause_between_two_images_is_longer_on_a_busy_disk_and_none_on_a_full_one() {
    // Free space, time with waits for I/O, the pause of the pace, the shortest and the longest time of the pass.
    for (free_percent, io_percent, pause, least, most) in
        [(50, 0.0, 1, 1, u64::MAX), (50, 10.0, 1, 4, u64::MAX), (50, 0.0, 0, 0, u64::MAX), (4, 99.0, 600, 0, 600)]
    {
        let mut bench = Bench::new(images(2, 0));
        bench.disks = Some(Arc::new(BusyDisk { free_percent, io_percent }));
        let begun = std::time::Instant::now();
        let (lines, ..) = bench.carry_out_plan(&paced(pause)).await;
        let took = begun.elapsed();
        assert_eq!(lines, ["sha256:aa removed", "sha256:bb removed"]);
        assert!((least..most).contains(&took.as_secs()), "{took:?} with {free_percent} % free and {io_percent} % I/O");
    }
}

#[tokio::test]
async fn a_stop_ends_a_pause() {
    let bench = Bench::new(images(2, 0));
    let stop = CancellationToken::new();
    let mut reports = Vec::new();
    let mut sink = |report: Report| {
        stop.cancel();
        reports.push(report);
    };
    let summary = bench.live().carry_out(&paced(600), &stop, &mut sink).await;
    assert_eq!((reports.len(), summary.not_begun), (1, 1));
}
