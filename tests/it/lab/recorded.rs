//! A replay of what the agent recorded beside containerd decides what the agent decided.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use kubegc::config::Settings;
use kubegc::cri::Endpoint;
use kubegc::daemon::node::LocalNode;
use kubegc::daemon::{Cycle, PassKind};
use kubegc::lab::Replay;
use kubegc::model::{ImageEvent, PodList, Trace, TraceEvent};
use kubegc::observe::HostDisks;
use kubegc::plan::{ImageOrder, Policy, Scope};
use kubegc::record::{Store, StoreReader};
use kubegc::rules::Score;
use tokio_util::sync::CancellationToken;

use super::generate::Load;
use super::ruler;
use crate::listed::Listed;
use crate::rig::{APP, Image, Layer, Rig, Version};

/// The hours that are recorded, with a pass in each.
const HOURS: i64 = 36;

#[tokio::test]
async fn daily_jobs_are_replayed_on_1_6() {
    let load = Load::of(21, [4, 14, 0, 0], 12, 3);
    the_replay_decides_what_the_agent_decided(Version::V1_6, &load, |_| {}).await;
}

#[tokio::test]
async fn builds_by_age_are_replayed_on_1_7() {
    let load = Load::of(22, [4, 0, 2, 14], 30, 3);
    let by_age = |policy: &mut Policy| policy.images.max_age = std::time::Duration::from_hours(7);
    the_replay_decides_what_the_agent_decided(Version::V1_7, &load, by_age).await;
}

#[tokio::test]
async fn an_order_by_size_is_replayed_on_2() {
    let load = Load::of(23, [6, 8, 2, 6], 11, 3);
    let by_size = |policy: &mut Policy| {
        policy.images.order = ImageOrder::Score(Score::compile("image.size_bytes").unwrap());
    };
    the_replay_decides_what_the_agent_decided(Version::V2, &load, by_size).await;
}

async fn the_replay_decides_what_the_agent_decided(version: Version, load: &Load, set: impl FnOnce(&mut Policy)) {
    let mut settings = Settings::default();
    let guards = &mut settings.policy.guards;
    // The clock of the agent is not that of the runtime, and a trace has no list that falls by mistake.
    (guards.settle, guards.fall_percent) = (std::time::Duration::ZERO, 0);
    // Its layer is also that of the sandbox image, and an image has one size in a trace.
    settings.policy.images.keep = vec![APP.into()];
    set(&mut settings.policy);
    let policy = settings.policy.clone();

    let (trace, pulls) = Box::pin(recorded(version, load, settings)).await;
    let collected = trace.events.iter().filter(|event| event.event == ImageEvent::Collected);
    let mut collected: Vec<_> = collected.map(|event| (pass_of(&trace, event.at), event.image)).collect();
    let mut ruler = ruler(&trace);
    (ruler.since, ruler.pulls) = (trace.disk[0].at, pulls);
    let replay = Replay::of(&trace, &policy, &ruler);
    let mut replayed: Vec<_> = replay.removals.iter().map(|removal| (removal.at, removal.image)).collect();
    // The agent removes several images at once.
    collected.sort_unstable();
    replayed.sort_unstable();
    assert_eq!(replayed, collected);
    assert!(collected.len() > 6, "{collected:?}");
    assert!(replay.totals.pulled_again > 0, "{:?}", replay.totals);
}

/// Returns the time of the pass during which something happened.
fn pass_of(trace: &Trace, at: Timestamp) -> Timestamp {
    trace.disk.iter().map(|sample| sample.at).filter(|pass| *pass <= at).max().unwrap()
}

/// Plays a load on a node whose disk and images are smaller, and returns what the agent recorded.
async fn recorded(version: Version, load: &Load, mut settings: Settings) -> (Trace, Arc<kubegc::model::Pulls>) {
    let rig = Rig::start_on_small_disk(version, load.disk_gib * 12).await;
    settings.kubelet_root = rig.dir().join("kubelet");
    let logs = &mut settings.policy.logs;
    (logs.pods_root, logs.containers_root) = (rig.pod_logs(), rig.container_logs());
    let start = kubegc::daemon::now();
    let time = Arc::new(Mutex::new(start));
    let clock = Arc::clone(&time);
    let pods = Arc::new(Listed(PodList { source: "test".to_owned(), complete: true, ..PodList::default() }));
    let disks = Arc::new(HostDisks::new(&settings.host_root));
    let node = LocalNode::new(Endpoint::at(rig.endpoint()), disks, pods);
    let path = rig.dir().join("state/kubegc.db");
    let store = Store::open(&path).await.unwrap();
    let cycle = Cycle::live(settings, &node, store, start).with_clock(Arc::new(move || *clock.lock().unwrap()));
    let mut player = Player { rig: &rig, load: load.trace(), next: 0, containers: BTreeMap::new() };
    for hour in 1..=HOURS {
        player.play_until(super::generate::start() + SignedDuration::from_hours(hour)).await;
        *time.lock().unwrap() = start + SignedDuration::from_hours(hour);
        let pass = cycle.pass(PassKind::Regular(Scope::Images), &CancellationToken::new(), |_, _| {}).await;
        assert_eq!((pass.plan.errors, pass.summary.total().failed), (Vec::new(), 0), "hour {hour}");
    }
    cycle.into_store().close().await;
    let store = StoreReader::open(&path).unwrap().unwrap();
    (store.trace().unwrap(), store.memory().unwrap().pulls)
}

/// Uses images on a node as a trace says.
struct Player<'r> {
    rig: &'r Rig,
    load: Trace,
    next: usize,
    /// The container that uses each image.
    containers: BTreeMap<usize, String>,
}

impl Player<'_> {
    async fn play_until(&mut self, until: Timestamp) {
        while let Some(TraceEvent { at, image, event }) = self.load.events.get(self.next).cloned()
            && at <= until
        {
            self.next += 1;
            match event {
                ImageEvent::Used => self.begin(image).await,
                ImageEvent::LastUsed => {
                    let container = self.containers.remove(&image).unwrap();
                    self.rig.remove_container(&container).await;
                }
                _ => {}
            }
        }
    }

    /// Imports an image if the node does not have it, and creates a container from it.
    async fn begin(&mut self, image: usize) {
        let of = &self.load.images[image].image;
        let tag = &format!("docker.io/{}", of.tags[0]);
        let is_there = self.rig.list_images().await.iter().any(|listed| listed.repo_tags.contains(tag));
        if !is_there {
            let mib = usize::try_from(of.size_bytes >> 27).unwrap().max(1);
            self.rig.import(&[Image::new(&[tag], &[Layer::filled(tag, mib)])]).await;
        }
        let uid = format!("uid-{}", self.next);
        let pod = self.rig.pod("default", &uid, &uid).await.with_image(tag);
        self.containers.insert(image, pod.created("use").await);
    }
}
