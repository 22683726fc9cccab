//! A thousand agents beside one API server: the real code by which an agent takes part in the fleet, a thousand times in this process. It
//! measures and prints; docs/performance.md has the figures.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, PostParams};
use kubegc::config::{PodSettings, Settings, StateSettings};
use kubegc::daemon::{policies, publisher};
use kubegc::fleet::{Fates, FleetPart, ImageFate, ListAnswer, NodeDisk, NodePolicies, NodeStatus, SILENT_AFTER};
use kubegc::model::Image;
use kubegc::plan::DiskSummary;
use serde_json::{Value, json};
use tokio::task::LocalSet;

use crate::rig::{NodeRig, Ran, eventually};

/// The agents, besides one that joins later.
const AGENTS: usize = 1000;
/// The image that all nodes have.
const IMAGE: &str = "docker.io/fleet/app:1";
const ID: &str = "sha256:0123456789012345678901234567890123456789012345678901234567890123";
const DEFINITIONS: &str = include_str!("../../../../packaging/components/fleet/crds.yaml");

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-fleet: it measures for ten minutes"]
async fn a_thousand_agents_need_little_of_an_api_server() {
    let node = NodeRig::start_api_alone().await;
    for definition in serde_saphyr::from_multiple::<Value>(DEFINITIONS).unwrap() {
        node.create_object(&definition).await;
    }
    node.grant_permissions_for_fleet("kubegc").await;
    let dir = tempfile::tempdir().unwrap();
    let fleet = Fleet { node: &node, dir: dir.path() };
    let begun = Instant::now();
    for number in 0..AGENTS {
        fleet.join(number).await;
    }
    fleet.start(0..AGENTS);
    fleet.all_show(AGENTS).await;
    println!("{AGENTS} of {AGENTS} nodes are shown {:.0?} after the first agent began", begun.elapsed());
    fleet.steady().await;
    fleet.pause().await;
    fleet.purge().await;
    fleet.look(&[]);
    fleet.look(&["images", IMAGE]);
}

/// The cluster and the directories of the agents.
struct Fleet<'a> {
    node: &'a NodeRig,
    dir: &'a Path,
}

// === impl Fleet ===

impl Fleet<'_> {
    /// Creates a Node and the directory of its store.
    async fn join(&self, number: usize) {
        let nodes: Api<Node> = Api::all(self.node.kube());
        let node = json!({ "metadata": { "name": format!("node-{number}") } });
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        std::fs::create_dir(self.dir.join(format!("node-{number}"))).unwrap();
    }

    /// Starts the agents of these nodes in one thread, which ends with the test.
    fn start(&self, numbers: std::ops::Range<usize>) {
        let settings: Vec<_> = numbers.map(|number| self.settings(number)).collect();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let agents = LocalSet::new();
            for settings in settings {
                agents.spawn_local(agent(settings));
            }
            runtime.block_on(agents);
        });
    }

    fn settings(&self, number: usize) -> Settings {
        let base = Settings::default();
        let path = self.dir.join(format!("node-{number}/kubegc.db"));
        Settings {
            node: format!("node-{number}"),
            fleet: [FleetPart::Policies, FleetPart::Disks].into(),
            pods: PodSettings { kubeconfigs: vec![self.node.kubeconfig("kubegc")], ..base.pods },
            state: StateSettings { path, ..base.state },
            ..Settings::default()
        }
    }

    /// Waits until so many nodes are shown, for as long as there are more of them: on a busy machine a debug build takes minutes.
    async fn all_show(&self, count: usize) {
        let disks: Api<NodeDisk> = Api::all(self.node.kube());
        let mut shown = 0;
        while shown < count {
            let before = shown;
            let more = async || {
                let list = disks.list(&ListParams::default()).await.unwrap();
                shown = list.items.iter().filter(|disk| disk.status.is_some()).count();
                shown > before
            };
            assert!(eventually(more).await, "only {shown} of {count} nodes are shown");
        }
    }

    /// Measures while nothing but the used space changes.
    async fn steady(&self) {
        let seconds = std::env::var("KUBEGC_FLEET_SECONDS").map_or(600, |text| text.parse().unwrap());
        let (writes, cpu, begun) = (self.writes().await, self.cpu_seconds(), Instant::now());
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let (writes, cpu, seconds) =
            (self.writes().await - writes, self.cpu_seconds() - cpu, begun.elapsed().as_secs_f64());
        let (rate, share) = (writes / seconds, 100.0 * cpu / seconds);
        println!("steady for {seconds:.0} s: {rate:.2} writes/s, the API server has {share:.1} % of a core");
    }

    /// Measures until the file of each agent has the pause.
    async fn pause(&self) {
        let begun = Instant::now();
        self.fleet(&["pause", "--reason", "incident 7"]).ok();
        let paused = async || {
            let has = |number: &usize| read(&self.settings(*number).state.policies_file()).contains("incident 7");
            (0..AGENTS).filter(has).count() == AGENTS
        };
        assert!(eventually(paused).await, "not all are paused");
        println!("a pause holds on {AGENTS} of {AGENTS} nodes after {:.1?}", begun.elapsed());
        self.fleet(&["resume"]).ok();
    }

    /// A list is answered by all, and by a node that joins later.
    async fn purge(&self) {
        let begun = Instant::now();
        let answered = self.fleet(&["remove", IMAGE, "--wait", "10m"]).ok().stdout;
        let sum = format!("{AGENTS} nodes answered: {AGENTS} removed, 0 absent, 0 kept.\n");
        assert!(answered.ends_with(&sum), "{}", answered.lines().last().unwrap());
        println!("a list is answered by {AGENTS} of {AGENTS} nodes after {:.1?}", begun.elapsed());
        self.join(AGENTS).await;
        self.start(AGENTS..AGENTS + 1);
        let disks: Api<NodeDisk> = Api::all(self.node.kube());
        let late = async || {
            let disk = disks.get_opt(&format!("node-{AGENTS}")).await.unwrap();
            disk.and_then(|disk| disk.status).is_some_and(|status| status.removals.iter().any(|it| it.removed == 1))
        };
        assert!(eventually(late).await, "the node that joined later did not answer");
    }

    fn look(&self, args: &[&str]) {
        let times = (0..3).map(|_| {
            let begun = Instant::now();
            assert!(self.fleet(args).ok().stdout.contains(&format!("{} nodes", AGENTS + 1)));
            begun.elapsed()
        });
        println!(
            "kubegc fleet {} (debug build) lists {} nodes in {:.2?}",
            args.join(" "),
            AGENTS + 1,
            times.min().unwrap()
        );
    }

    fn fleet(&self, args: &[&str]) -> Ran {
        let kubeconfig = self.node.kubeconfig("admin").display().to_string();
        self.node.kubegc(&[&["fleet"], args, &["--kubeconfig", &kubeconfig]].concat())
    }

    /// Returns how many writes of NodeDisks the API server has counted.
    async fn writes(&self) -> f64 {
        let request = tonic::codegen::http::Request::get("/metrics").body(Vec::new()).unwrap();
        let metrics = self.node.kube().request_text(request).await.unwrap();
        let is_write = |line: &&str| {
            line.starts_with("apiserver_request_total{")
                && line.contains(r#"resource="nodedisks""#)
                && [r#"verb="APPLY""#, r#"verb="PATCH""#, r#"verb="POST""#].iter().any(|verb| line.contains(verb))
        };
        let values = metrics.lines().filter(is_write).filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        values.sum()
    }

    /// Returns the processor time of the API server.
    fn cpu_seconds(&self) -> f64 {
        let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let is_it = |path: &PathBuf| {
            let command = read(&path.join("cmdline"));
            command.contains("kube-apiserver\0") && command.contains(self.node.name())
        };
        let stat = read(&processes.filter(|path| is_it(path)).last().unwrap().join("stat"));
        let ticks = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
        ticks.map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The part of an agent that takes part in the fleet. Its node has one image, and a disk whose use changes by a percent in five minutes.
async fn agent(settings: Settings) {
    let (file, begun, answers) = (settings.state.policies_file(), Instant::now(), RefCell::new(Vec::new()));
    let image = Image { id: ID.into(), tags: vec![IMAGE.to_owned()], ..Image::default() };
    let fates: Fates = [(image.id.clone(), ImageFate::Removed)].into();
    let status = async || {
        let (policies, now) = (NodePolicies::read(&read_or_none(&file)), Timestamp::now());
        let before: Vec<ListAnswer> = answers.borrow().clone();
        let images = if before.is_empty() { vec![&image] } else { Vec::new() };
        let removals = policies.answers(&images, &fates, &before, now);
        answers.replace(removals.clone());
        let used_percent = 40 + begun.elapsed().as_secs() / (SILENT_AFTER.as_secs() / 3) % 40;
        let mut status = NodeStatus {
            version: "1.0.0".to_owned(),
            mode: "collect".to_owned(),
            disks: vec![DiskSummary { holds: "images".to_owned(), used_percent, ..DiskSummary::default() }],
            policies: policies.policies.keys().cloned().collect(),
            removals,
            ..NodeStatus::default()
        };
        status.set_collecting(policies.suspension(now).map(|suspension| suspension.to_string()).as_deref());
        status.set_healthy(None);
        Some(status)
    };
    let received = policies::ReceivedPolicies::default();
    tokio::join!(policies::follow(&settings, &received), publisher::publish(&settings, status));
}

/// Returns the document; an empty one before the first list.
fn read_or_none(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|_| "{}".to_owned())
}
