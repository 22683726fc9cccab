//! A disk that gets disk pressure, and the reaction of the service.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kubegc::config::{Intervals, Settings};
use kubegc::cri::Endpoint;
use kubegc::daemon::schedule::Limits;
use kubegc::daemon::{Cycle, node, service, signals};
use kubegc::model::{Phase, Pod, PodList};
use kubegc::observe::DiskFn;
use kubegc::plan::{Pressure, Scope};
use kubegc::record::{HistoryFilter, Store, StoreReader};
use kubegc::serve::{Inbox, Progress};
use kubegc::sim::{GIB, Node, Sim};
use tokio_util::sync::CancellationToken;

use crate::listed::Listed;

const IMAGE: &str = "r.example/job:1";
const MINUTE: Duration = Duration::from_mins(1);

/// Returns a terminated pod and a running one.
fn pods() -> PodList {
    let pod = |uid: &str, phase, image: &str| Pod {
        uid: uid.into(),
        namespace: "default".into(),
        name: uid.into(),
        phase,
        images: vec![image.to_owned()],
        ..Pod::default()
    };
    let pods = vec![pod("u-job", Phase::Succeeded, IMAGE), pod("u-web", Phase::Running, "r.example/next:1")];
    PodList { source: "listed".into(), complete: true, pods, ..PodList::default() }
}

/// Returns a disk of 100 GiB with 30 free, a terminated pod, a pod that crashed and will be restarted, and three images
/// of 2 GiB.
fn sim() -> Sim {
    let node = Node::new().now(Timestamp::now()).disk(100 * GIB, 64 * GIB).ago(600 * MINUTE);
    let node = [IMAGE, "r.example/old:1", "r.example/next:1"]
        .iter()
        .fold(node, |node, name| node.image(name, &[(name, 2 * GIB)]));
    let node = node.pod("default", "u-job", "u-job").exited("job", IMAGE).stopped();
    Sim::start(node.pod("default", "u-web", "u-web").exited("web", "r.example/gone:1")).unwrap()
}

fn settings(sim: &Sim) -> Settings {
    let mut settings = Settings { kubelet_root: sim.dir().join("kubelet"), ..Settings::default() };
    let second = Duration::from_secs(1);
    settings.intervals =
        Intervals { containers: 600 * MINUTE, images: 600 * MINUTE, pressure: second, max_backoff: 600 * MINUTE };
    settings.policy.logs.pods_root = sim.log_roots().pods;
    settings.policy.logs.containers_root = sim.log_roots().containers;
    settings.policy.guards.settle = Duration::ZERO;
    settings.policy.guards.sandbox_grace = Duration::ZERO;
    settings.policy.images.min_age = Duration::ZERO;
    settings.policy.pressure.free_percent = 20;
    settings
}

#[tokio::test]
async fn disk_pressure_removes_terminated_pods_objects_and_unused_images() {
    let (sim, dir) = (sim(), tempfile::tempdir().unwrap());
    let store = dir.path().join("kubegc.db");
    let settings = settings(&sim);
    let endpoint = Endpoint::at(sim.endpoint());
    let disks = Arc::new(DiskFn(sim.disk_reader()));
    let node = node::LocalNode::new(endpoint, disks, Arc::new(Listed(pods())));
    let cycle = Cycle::live(settings, &node, Store::open(&store).await.unwrap(), Timestamp::now());
    let (_signals, _, reload) = signals::listen().unwrap();
    let stop = CancellationToken::new();

    let log = sim.log_roots().pods.join("default_u-job_u-job/job/0.log");
    let mut passes = Vec::new();
    let after = |pass: &kubegc::plan::Pass| {
        passes.push((pass.scope, pass.plan.pressure.clone(), pass.plan.actions.len(), log.is_file()));
        match (pass.scope, passes.len()) {
            // There was no disk pressure until now. Other data fills the disk.
            (_, 2) => sim.state().set_other_bytes(85 * GIB),
            (_, 6) => stop.cancel(),
            _ => {}
        }
    };
    let limits = Limits::default();
    let inbox = Inbox::closed(Timestamp::now());
    let mut requests = service::Requests { reload, inbox, progress: Progress::default() };
    let service = service::run(cycle, &limits, &stop, &mut requests, || None::<()>, after);
    let (used, _) = tokio::time::timeout(MINUTE, service).await.expect("a disk that is short is answered");
    used.close().await;

    assert_eq!(passes[..2], [(Scope::Containers, None, 0, true), (Scope::Images, None, 0, true)]);
    // The unused image, what the terminated pod left, the image that it used, and at last its logs.
    let order = [(Scope::Images, 1), (Scope::Containers, 2), (Scope::Images, 1), (Scope::Containers, 1)];
    for (pass, expected) in passes[2..].iter().zip(order) {
        assert_eq!((pass.0, pass.2), expected);
        assert!(matches!(pass.1, Some(Pressure::FreePercent { limit_percent: 20, .. })), "{pass:?}");
    }
    let with_log: Vec<_> = passes.iter().map(|pass| pass.3).collect();
    assert_eq!(with_log, [true, true, true, true, true, false], "the logs are last");
    let left = sim.state();
    assert_eq!(left.container_names(), ["u-web/web#0 exited"], "what an existing pod may need stays");
    assert_eq!(left.sandbox_names().len(), 1);
    assert_eq!(left.image_names(), ["r.example/next:1"], "an existing pod names it");
    assert!(sim.log_roots().pods.join("default_u-web_u-web").is_dir(), "the logs of a pod that is restarted stay");
    drop(left);

    let store = StoreReader::open(&store).unwrap().unwrap();
    let runs = store.runs(10).unwrap();
    let triggers: Vec<_> = runs.iter().map(|run| run.triggered_by.is_some()).collect();
    // The two first passes had nothing to do.
    assert_eq!(triggers, [true, true, true, true, false, false], "{runs:?}");
    let trigger = runs[3].triggered_by.as_deref().unwrap_or_default();
    assert!(trigger.ends_with("is 9 % free, pressure.free_percent = 20"), "{runs:?}");
    let mut why: Vec<_> = store.history(&HistoryFilter::default()).unwrap();
    why.sort_by_key(|entry| entry.kind);
    let why: Vec<_> = why.iter().map(|entry| (entry.kind.as_str(), entry.reason.as_str())).collect();
    let expected = [
        ("container", "pod_terminal"),
        ("sandbox", "pod_terminal"),
        ("log_dir", "pod_terminal"),
        ("image", "unused"),
        ("image", "unused"),
    ];
    assert_eq!(why, expected);
}
