use std::sync::Mutex;

use super::pauses::end_pause;
use super::*;
use crate::cri::Endpoint;
use crate::fleet::Pause;
use crate::observe::{DiskFn, RuntimePods};
use crate::plan::{ArchiveLimit, Guards, Policy, Profile};
use crate::sim::{Node, Sim};

fn of(profile: Profile) -> ExecuteOptions {
    let policy = Policy { profile, guards: Guards::of(profile), ..Policy::default() };
    let settings = Settings { kubelet_root: "/var/lib/kubelet".into(), policy, ..Settings::default() };
    options(&settings, Duration::ZERO)
}

#[test]
fn the_rechecks_follow_the_guards() {
    let (safe, kubelet) = (of(Profile::Safe), of(Profile::Kubelet));
    let rechecks =
        |options: ExecuteOptions| (options.confirms_deletions, options.keeps_pod_images, options.kubelet_pods);
    assert_eq!(rechecks(safe), (true, true, Some("/var/lib/kubelet/pods".into())));
    assert_eq!(rechecks(kubelet), (false, false, None));
}

const DAY: Duration = Duration::from_hours(24);

/// The clocks of a test: the wall clock, and the time since its start.
#[derive(Clone)]
struct Clocks(Arc<Mutex<(Timestamp, Duration)>>);

impl Clocks {
    fn pass(&self, time: Duration) {
        self.set(time);
        self.0.lock().unwrap().1 += time;
    }

    /// Sets the wall clock forward.
    fn set(&self, by: Duration) {
        self.0.lock().unwrap().0 += by;
    }
}

/// Returns a cycle that observes since `start`, and its clocks, which stand at `now`.
fn with_clocks(settings: Settings, sim: &Sim, start: Timestamp, now: Timestamp) -> (Cycle, Clocks) {
    let place =
        LocalNode::new(Endpoint::at(sim.endpoint()), Arc::new(DiskFn(sim.disk_reader())), Arc::new(RuntimePods));
    let clocks = Clocks(Arc::new(Mutex::new((now, Duration::ZERO))));
    let (wall, monotonic) = (clocks.clone(), clocks.clone());
    let cycle = Cycle::live(settings, &place, Store::without_file(Memory::default()), start)
        .with_clock(Arc::new(move || wall.0.lock().unwrap().0))
        .with_monotonic(Arc::new(move || monotonic.0.lock().unwrap().1));
    (cycle, clocks)
}

/// Returns the names of the removed objects of a pass over these objects.
async fn removed(cycle: &Cycle, scope: Scope) -> Vec<String> {
    let pass = cycle.pass(PassKind::Regular(scope), &CancellationToken::new(), |_, _| {}).await;
    pass.reports.iter().map(|report| report.action.target.id()).collect()
}

/// I15: a jump makes nothing old, and what is old by the clock that passes is removed.
#[tokio::test]
async fn a_jump_of_the_clock_removes_nothing_by_age() {
    let start = clock::now();
    let node = Node::new().now(start).disk(100 << 30, 10 << 30).image("r.example/new:1", &[("new", 1 << 20)]);
    let node = node
        .pod("default", "web", "u0")
        .id("c0")
        .exited("app", "r.example/gone:1")
        .id("c1")
        .exited("app", "r.example/gone:1");
    let sim = Sim::start(node).unwrap();
    let mut settings = Settings { kubelet_root: sim.dir().join("kubelet"), ..Settings::default() };
    let policy = &mut settings.policy;
    (policy.logs.pods_root, policy.logs.containers_root) = (sim.log_roots().pods, sim.log_roots().containers);
    (policy.images.max_age, policy.containers.min_age) = (7 * DAY, DAY);
    (policy.guards.settle, policy.containers.max_per_pod_container) = (Duration::ZERO, Some(0));
    policy.guards.keep_newest_instance = false;
    let (cycle, clocks) = with_clocks(settings, &sim, start, start + Duration::from_secs(5));
    let nothing: [&str; 0] = [];
    assert_eq!(removed(&cycle, Scope::All).await, nothing);
    clocks.pass(Duration::from_mins(1));
    assert_eq!(removed(&cycle, Scope::All).await, nothing);
    clocks.set(8 * DAY);
    for _ in 0..3 {
        clocks.pass(Duration::from_mins(1));
        assert_eq!(removed(&cycle, Scope::All).await, nothing, "after the jump");
    }
    clocks.pass(DAY);
    assert_eq!(removed(&cycle, Scope::All).await, ["c0", "c1"]);
    clocks.pass(6 * DAY);
    assert_eq!(removed(&cycle, Scope::All).await.len(), 1, "the image");
}

/// I15: the same of files that only the archive has.
#[tokio::test]
async fn a_jump_of_the_clock_removes_no_archived_log() {
    let start = clock::now();
    let sim = Sim::start(Node::new().now(start).disk(100 << 30, 10 << 30)).unwrap();
    let mut settings = Settings { kubelet_root: sim.dir().join("kubelet"), ..Settings::default() };
    let logs = &mut settings.policy.logs;
    (logs.pods_root, logs.containers_root) = (sim.log_roots().pods, sim.log_roots().containers);
    logs.archive = vec![ArchiveLimit::Keep(7 * DAY)];
    let container = logs.archive_root().join("default_gone_u9/app");
    std::fs::create_dir_all(&container).unwrap();
    std::fs::write(container.join("0.log"), "line\n").unwrap();
    let (cycle, clocks) = with_clocks(settings, &sim, start, start + DAY);
    for jump in [0, 8] {
        clocks.set(jump * DAY);
        clocks.pass(Duration::from_mins(1));
        assert_eq!(removed(&cycle, Scope::Containers).await.len(), 0, "after {jump} days");
    }
    clocks.pass(6 * DAY);
    assert_eq!(removed(&cycle, Scope::Containers).await.len(), 1, "it is kept for seven days");
    assert!(!container.join("0.log").exists());
}

/// A walk would take from the disk what removals need.
#[tokio::test]
async fn an_account_is_taken_without_disk_pressure_only() {
    let image = |node: Node| node.image("r.example/new:1", &[("new", 1 << 20)]);
    for (free, is_taken) in [(1_u64 << 30, false), (50 << 30, true)] {
        let sim = Sim::start(image(Node::new().now(clock::now()).disk(100 << 30, (100 << 30) - free))).unwrap();
        let mut settings = Settings { kubelet_root: sim.dir().join("kubelet"), ..Settings::default() };
        let policy = &mut settings.policy;
        (policy.logs.pods_root, policy.logs.containers_root) = (sim.log_roots().pods, sim.log_roots().containers);
        policy.pressure.free_bytes = 10 << 30;
        let disks = Arc::new(DiskFn(sim.disk_reader()));
        let place = LocalNode::new(Endpoint::at(sim.endpoint()), disks, Arc::new(RuntimePods));
        let last = LastAccount::default();
        let cycle = Cycle::live(settings, &place, Store::without_file(Memory::default()), clock::now());
        let cycle = cycle.with_account(&last);
        assert_eq!(cycle.take_account().await, is_taken);
        let categories = last.lock().unwrap().take().map(|contents| contents.disks[0].categories.len());
        assert_eq!(categories.is_some(), is_taken, "{categories:?}");
    }
}

/// What the archive has of a namespace stays while removals are suspended (I19), so it gets no more of it.
#[tokio::test]
async fn a_pause_removes_nothing_from_the_archive_and_its_limits_hold() {
    let node = ["default", "shop"].into_iter().fold(Node::new().now(clock::now()), |node, namespace| {
        node.id(&format!("s-{namespace}")).pod(namespace, "web", &format!("u-{namespace}"))
    });
    let sim = Sim::start(node).unwrap();
    let mut settings = Settings { kubelet_root: sim.dir().join("kubelet"), ..Settings::default() };
    (settings.state.path, settings.state.lock) = (sim.dir().join("kubegc.db"), sim.dir().join("kubegc.lock"));
    settings.policy.logs.pods_root = sim.log_roots().pods;
    settings.policy.logs.containers_root = sim.log_roots().containers;
    settings.policy.logs.archive = vec!["node 1B".parse().unwrap()];
    let logs = |namespace: &str| sim.log_roots().pods.join(format!("{namespace}_web_u-{namespace}/app"));
    let write = |namespace: &str, name: &str| {
        std::fs::create_dir_all(logs(namespace)).unwrap();
        std::fs::write(logs(namespace).join(name), "line").unwrap();
    };
    let archived = |namespace: &str, name: &str| {
        let archive = settings.policy.logs.archive_root();
        archive.join(logs(namespace).strip_prefix(sim.log_roots().pods).unwrap()).join(name).exists()
    };
    let cycle = || {
        let disks = Arc::new(DiskFn(sim.disk_reader()));
        let place = LocalNode::new(Endpoint::at(sim.endpoint()), disks, Arc::new(RuntimePods));
        Cycle::live(settings.clone(), &place, Store::without_file(Memory::default()), clock::now())
    };
    write("default", "0.log");
    removed(&cycle(), Scope::Containers).await;
    assert!(archived("default", "0.log"));
    std::fs::rename(logs("default").join("0.log"), sim.dir().join("0.log")).unwrap();
    end_pause(&sim.dir().join("0.log")).unwrap();
    write("default", "1.log");
    write("shop", "0.log");
    pauses::write_pause(&settings.state.pause_file(), &Pause::default()).unwrap();
    let paused = cycle();
    removed(&paused, Scope::Containers).await;
    assert!(!archived("shop", "0.log") && !archived("default", "1.log"), "before a plan it is not known what it has");
    removed(&paused, Scope::Containers).await;
    assert!(archived("shop", "0.log"), "of this namespace it has nothing");
    assert!(archived("default", "0.log") && !archived("default", "1.log"), "of this one it has too much");
    end_pause(&settings.state.pause_file()).unwrap();
    let resumed = cycle();
    removed(&resumed, Scope::Containers).await;
    assert!(!archived("default", "0.log"));
    removed(&resumed, Scope::Containers).await;
    assert!(archived("default", "1.log"));
}
