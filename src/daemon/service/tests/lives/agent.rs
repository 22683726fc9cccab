//! One process of the agent after the other: the real service, what it sees of the API server, and the observer of its calls.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::super::{Endpoint, Inbox, NEVER, Progress, Requests, Settings, Store, node, run};
use super::judge::{is_full, judge};
use super::script::{Api, PODS, Reply, Sort};
use crate::daemon::Cycle;
use crate::daemon::process::signals::Reload;
use crate::daemon::schedule::Limits;
use crate::fleet::QuietHours;
use crate::model::{Container, Phase, Pod, PodList, PodRef, PodUid, Sandbox, Seen};
use crate::observe::{DiskFn, PodSource};
use crate::sim::{Fault, Node, Rpc, Sim};
use crate::testing::lives::{Record, clock};

/// The calls of a life: far more than any life needs.
const MOST: usize = 50_000;
/// The quiet hours of some settings: a part of the hour.
const QUIET: &str = "03:20-03:40";
/// How long the process is down after its end.
const RESTART: Duration = Duration::from_secs(3);

/// The stage of a life, which is the API server too. All clones are one.
#[derive(Clone)]
pub(super) struct Stage(Arc<Mutex<Acts>>);

/// What is true, and what happens to the agent.
#[derive(Default)]
pub(super) struct Acts {
    pub(super) record: Record,
    pub(super) pods: [Option<Pod>; PODS],
    pub(super) api: Api,
    /// The pods of the list that is shown while the API server is stale.
    pub(super) stale: Vec<Pod>,
    /// The pods of the last complete list, whether this was the last one, and since when the lists lack each uid that there was.
    pub(super) listed: Vec<Pod>,
    pub(super) is_listed: bool,
    /// A removal had no answer, so its pass goes on ten minutes after its own list.
    pub(super) has_long_pass: bool,
    pub(super) absent: BTreeMap<String, Option<Instant>>,
    /// When a lookup by the agent did not find each.
    pub(super) absent_at: BTreeMap<String, Instant>,
    /// Where the kubelet has a directory for each pod.
    pub(super) dirs: PathBuf,
    pub(super) is_paused: bool,
    /// The agent had settings with which disk pressure removes what terminated pods left.
    pub(super) relieves: bool,
    pub(super) troubles: Vec<(Sort, Reply)>,
    /// After so many calls the agent is killed, at one that has an effect or not.
    pub(super) kill: Option<(usize, bool)>,
    pub(super) killed: Arc<Notify>,
    /// Which settings the agent gets, and which it has.
    pub(super) settings: usize,
    has: usize,
    /// When the disk was full.
    full_at: Option<Instant>,
    calls: usize,
}

/// Runs one process after the other.
pub(super) async fn processes(sim: &Sim, stage: &Stage, reload: &Reload) {
    let killed = Arc::clone(&stage.acts().killed);
    loop {
        tokio::select! {
            biased;
            () = killed.notified() => stage.acts().record.log("the agent is killed"),
            () = live(sim, stage, reload) => {}
        }
        sleep(RESTART).await;
    }
}

/// The service, as the agent runs it with one settings after the other.
async fn live(sim: &Sim, stage: &Stage, reload: &Reload) {
    let endpoint = Endpoint::at(sim.endpoint());
    let node = node::LocalNode::new(endpoint, Arc::new(DiskFn(sim.disk_reader())), Arc::new(stage.clone()));
    let limits = Limits { stall: NEVER, ..Limits::default() };
    let (stop, begun, begins) = (CancellationToken::new(), Instant::now(), clock());
    let mut requests = Requests { reload: reload.clone(), inbox: Inbox::closed(begins), progress: Progress::default() };
    let mut store = Store::open(&settings(sim, 0).state.path).await.unwrap();
    loop {
        let number = stage.acts().settings;
        stage.acts().has = number;
        let settings = settings(sim, number);
        let cycle = Cycle::live(settings, &node, store, begins).with_clock(Arc::new(clock));
        let cycle = cycle.with_monotonic(Arc::new(move || begun.elapsed()));
        store = Box::pin(run(cycle, &limits, &stop, &mut requests, || Some(()), |_| {})).await.0;
        stage.acts().record.log("the agent reloads");
    }
}

/// Returns one of the settings of a life.
pub(super) fn settings(sim: &Sim, number: usize) -> Settings {
    let dir = |name: &str| sim.dir().join(name);
    let mut settings = Settings { kubelet_root: dir("kubelet"), networks_root: dir("networks"), ..Settings::default() };
    settings.intervals.pressure = Duration::from_secs(10);
    settings.state.path = dir("state/kubegc.db");
    let policy = &mut settings.policy;
    (policy.logs.pods_root, policy.logs.containers_root) = (sim.log_roots().pods, sim.log_roots().containers);
    match number {
        1 => {
            policy.images.max_age = Duration::from_mins(10);
            policy.logs.archive = vec!["keep 1h".parse().unwrap(), "node 1MiB".parse().unwrap()];
        }
        2 => {
            (policy.images.all_unused, policy.containers.max_per_pod_container) = (true, Some(0));
            policy.images.undo = Duration::from_mins(20);
            settings.quiet = vec![QUIET.parse().unwrap()];
        }
        3 => policy.pressure.free_percent = 20,
        _ => {}
    }
    settings
}

fn fault(reply: Reply) -> Fault {
    match reply {
        Reply::Fails => Fault::Fail(Code::Internal),
        Reply::Hangs => Fault::Hang,
        Reply::Unanswered => Fault::DoThenHang,
        Reply::Slow(seconds) => Fault::Slow(Duration::from_secs(seconds)),
        Reply::Late(seconds) => Fault::Late(Duration::from_secs(seconds)),
    }
}

fn sort_of(method: Rpc) -> Sort {
    match method {
        Rpc::ListContainers | Rpc::ListImages | Rpc::ListPodSandbox => Sort::Lists,
        _ if method.changes() => Sort::Removals,
        _ => Sort::Reads,
    }
}

// === impl Stage ===

impl Stage {
    /// Begins a life whose kubelet has a directory there for each pod.
    pub(super) fn new(dirs: PathBuf) -> Self {
        Self(Arc::new(Mutex::new(Acts { dirs, ..Acts::default() })))
    }

    pub(super) fn acts(&self) -> MutexGuard<'_, Acts> {
        self.0.lock().unwrap()
    }
}

// === impl Acts ===

impl Acts {
    pub(super) fn exists(&self, uid: &str) -> bool {
        self.pods.iter().flatten().any(|pod| pod.uid == uid.into())
    }

    /// Returns whether what a pod needs is kept.
    pub(super) fn is_kept(&self, uid: &str) -> bool {
        let is_over = |pod: &Pod| self.relieves && pod.phase == Phase::Succeeded;
        self.pods.iter().flatten().any(|pod| pod.uid == uid.into() && !is_over(pod))
    }

    /// Returns whether quiet hours suspend each pass: one for a full disk goes on.
    pub(super) fn is_quiet(&self) -> bool {
        // Such a pass may wait for an answer.
        let was_full = self.full_at.is_some_and(|at| at.elapsed() < Duration::from_mins(15));
        self.has == 2 && !was_full && QUIET.parse::<QuietHours>().unwrap().end_of(clock()).is_some()
    }

    /// Returns the pods as they are shown; `None` = they are not.
    pub(super) fn shown(&self) -> Option<Vec<Pod>> {
        let shown = self.pods.iter().enumerate().filter(|(at, _)| self.api != Api::Omits(*at));
        match self.api {
            Api::Down => None,
            Api::Stale => Some(self.stale.clone()),
            _ => Some(shown.filter_map(|(_, pod)| pod.clone()).collect()),
        }
    }

    /// Answers the lookup of a pod.
    fn look_up(&mut self, uid: &PodUid) -> Seen<bool> {
        let omitted = if let Api::Omits(at) = self.api { self.pods[at].as_ref() } else { None };
        let is_shown = self.exists(&uid.to_string()) && omitted.is_none_or(|omitted| omitted.uid != *uid);
        match self.api {
            Api::Down => return Seen::NotSeen("the API server is down".to_owned()),
            _ if is_shown => drop(self.absent_at.remove(&uid.to_string())),
            _ => drop(self.absent_at.insert(uid.to_string(), Instant::now())),
        }
        Seen::Seen(is_shown)
    }

    fn list(&mut self) -> Seen<PodList> {
        let (shown, complete) = (self.shown(), self.api != Api::Incomplete);
        self.is_listed = complete && shown.is_some();
        let Some(pods) = shown else { return Seen::NotSeen("the API server is down".to_owned()) };
        if complete {
            self.listed.clone_from(&pods);
            for (uid, since) in &mut self.absent {
                let is_listed = pods.iter().any(|pod| pod.uid == uid.as_str().into());
                *since = since.or_else(|| Some(Instant::now())).filter(|_| !is_listed);
            }
        }
        Seen::Seen(PodList { source: "test".to_owned(), complete, pods, ..PodList::default() })
    }

    /// Logs a call, chooses how it is answered, and judges it if it may have an effect.
    pub(super) fn observe(&mut self, method: Rpc, id: &str, node: &Node) -> Option<Fault> {
        self.calls += 1;
        self.record.log(format_args!("{}{method} {id}", if method.changes() { "" } else { "reads " }));
        self.full_at = is_full(node).then(Instant::now).or(self.full_at);
        if self.calls >= MOST {
            self.record.fault(format!("{MOST} calls, the last one {method}"));
            return Some(Fault::Hang);
        }
        if let Some((left, has_effect)) = self.kill {
            self.kill = left.checked_sub(1).map(|left| (left, has_effect));
            if left == 0 {
                self.killed.notify_one();
                self.record.log(format_args!("kill, and the call has an effect: {has_effect}"));
                return Some(if has_effect { Fault::DoThenHang } else { Fault::Hang });
            }
        }
        let at = self.troubles.iter().position(|(sort, _)| *sort == sort_of(method));
        let reply = at.map(|at| self.troubles.remove(at).1);
        let has_effect = !matches!(reply, Some(Reply::Fails | Reply::Hangs));
        self.has_long_pass |= method.changes() && matches!(reply, Some(Reply::Hangs | Reply::Unanswered));
        if let Err(fault) = judge(method, id, node, self)
            && has_effect
        {
            self.record.fault(format!("{method} {id}: {fault}"));
        }
        reply.map(fault)
    }
}

#[async_trait]
impl PodSource for Stage {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn list(&self, _: &Seen<Vec<Container>>, _: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        self.acts().list()
    }

    async fn still_exists(&self, pod: &PodRef) -> Seen<bool> {
        self.acts().look_up(&pod.uid)
    }

    async fn cached_pods(&self) -> Vec<Pod> {
        self.acts().shown().unwrap_or_default()
    }
}
