//! `kubegc run` as the scenarios run it: a pass every second, pods from the API, and a log that a test can read.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::rig::{Image, Layer, NodeRig, Program, Ran};

/// How long a pod must be missing before it counts as deleted: long enough that a test can do something meanwhile.
pub const GONE_AFTER: Duration = Duration::from_secs(8);

/// The settings of every scenario. Unused images are removed immediately unless a scenario changes that.
const SETTINGS: [&str; 10] = [
    "containers.interval=1s",
    "images.interval=1s",
    "images.min_age=0s",
    "images.high_threshold_percent=100",
    "guards.settle=0s",
    "guards.fall_hold=0s",
    "guards.sandbox_grace=1s",
    "guards.gone_after=8s",
    "log.format=json",
    "pods.source=kube-api",
];

/// The service of a node, and its messages since the last call of [`Service::mark`].
pub struct Service<'a> {
    node: &'a NodeRig,
    args: Vec<String>,
    mark: Cell<usize>,
}

// === impl Service ===

impl<'a> Service<'a> {
    /// Starts the service with the credentials of `user` for the API server. Settings are as for `--set`.
    pub fn start(node: &'a NodeRig, user: &str, settings: &[&str]) -> Self {
        let own = [format!("node={}", node.name()), format!("pods.kubeconfig={}", node.kubeconfig(user).display())];
        let all = SETTINGS.iter().chain(settings).map(ToString::to_string).chain(own);
        let args: Vec<_> = all.map(|setting| format!("--set={setting}")).collect();
        node.prepare_service(&args.iter().map(String::as_str).collect::<Vec<_>>());
        node.launch(Program::Kubegc);
        Self { node, args, mark: Cell::new(0) }
    }

    /// Runs another command with the service's settings.
    pub fn kubegc(&self, words: &[&str]) -> Ran {
        let args: Vec<_> = words.iter().copied().chain(self.args.iter().map(String::as_str)).collect();
        self.node.kubegc(&args)
    }

    /// Discards the messages so far.
    pub fn mark(&self) {
        self.mark.set(self.node.log_of(Program::Kubegc).len());
    }

    /// Returns the messages of the service since the mark, one document a line.
    pub fn messages(&self) -> Vec<Value> {
        let log = self.node.log_of(Program::Kubegc);
        let lines = log[self.mark.get()..].lines();
        lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    /// Returns why observations were unavailable, from the messages since the mark.
    pub fn causes(&self) -> BTreeSet<String> {
        self.messages().iter().filter_map(|line| Some(line["fields"]["cause"].as_str()?.to_owned())).collect()
    }

    /// Waits until the service has made a pass over the node as it is now.
    pub async fn next_pass(&self) {
        // One of the two kinds may be running. They take turns, so the other one starts after this call.
        self.passes(0).await;
    }

    /// Waits for so many whole passes of each kind, and returns their results.
    pub async fn passes(&self, count: usize) -> Vec<Value> {
        let before = self.passed().len();
        let ended = |scope: &str| self.passed().iter().skip(before).filter(|pass| pass["scope"] == scope).count();
        // One of each kind may be running.
        let enough = async || ended("containers") > count && ended("images") > count;
        self.until("passes", enough).await;
        self.passed().split_off(before)
    }

    fn passed(&self) -> Vec<Value> {
        let log = self.node.log_of(Program::Kubegc);
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.map(|mut line| line["fields"].take()).filter(|fields| fields["message"] == "pass done").collect()
    }

    /// Waits until a condition is true, for four minutes at most.
    pub async fn until(&self, what: &str, mut is: impl AsyncFnMut() -> bool) {
        let since = Instant::now();
        while !is().await {
            let log = self.node.log_of(Program::Kubegc);
            let end: Vec<_> = log.lines().rev().take(20).collect();
            assert!(since.elapsed() < Duration::from_mins(4), "no {what}; the log ends with\n{end:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns the history entries with this text in the name or pod, newest first; an empty text matches all.
    pub fn history(&self, text: &str) -> Vec<Value> {
        let words = ["history", "-o", "json", "--limit", "10000"];
        let words: Vec<_> = words.into_iter().chain((!text.is_empty()).then_some(text)).collect();
        self.kubegc(&words).ok().lines().collect()
    }

    /// Counts the actions by kind, reason and outcome.
    pub fn deeds(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for deed in self.history("") {
            let words = ["kind", "reason", "outcome"].map(|key| deed[key].as_str().unwrap_or_default().to_owned());
            *counts.entry(words.join(" ")).or_default() += 1;
        }
        counts
    }

    /// Returns why no pod counts as deleted, as `plan` reports it for each log directory. Empty if one may.
    pub fn why_no_pod_is_deleted(&self) -> BTreeSet<String> {
        let plan: Value = serde_json::from_str(&self.kubegc(&["plan", "-o", "json"]).stdout).unwrap();
        let dirs = plan["kept"].as_array().unwrap().iter().filter(|kept| kept["kind"] == "log_dir");
        let unseen = dirs.filter(|kept| kept["reason"] == "pods_not_seen" || kept["reason"] == "pods_incomplete");
        unseen.map(|kept| kept["cause"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns how often the service was started.
    pub fn starts(&self) -> usize {
        let log = self.node.log_of(Program::Kubegc);
        log.lines().filter(|line| line.contains(r#""message":"starting""#)).count()
    }
}

/// Creates the objects of a pod that is not in the API: `app#0` to `app#2` dead, a sandbox and logs. It also creates a
/// dangling log symlink and an unused image with its name. Only the removal of `app#2`, the sandbox and the logs needs
/// a pod source. A running kubelet would stop the pod meanwhile: pause it.
pub async fn leave_litter(node: &NodeRig, namespace: &str, name: &str) {
    node.import(&[Image::new(&[&image(name)], &[Layer::busybox()])]).await;
    let nowhere = Path::new("/var/log/pods").join(format!("{namespace}_{name}_nowhere/app/0.log"));
    let link = format!("{name}_{namespace}_app-{}.log", "0".repeat(64));
    std::os::unix::fs::symlink(nowhere, node.container_logs().join(link)).unwrap();
    let pod = node.pod(namespace, name, &format!("uid-{name}")).await;
    pod.crash_looped("app", 3).await;
    pod.stop_sandbox().await;
}

/// Returns the objects whose removal needs a pod source, as [`crate::rig::Names`] names them. Logs are left out,
/// because a running kubelet removes them too.
pub fn needs_pods(name: &str) -> BTreeSet<String> {
    [format!("container {name}/app#2 exited"), format!("sandbox {name}#0 notready")].into()
}

/// Returns the objects whose removal needs no pod source.
pub fn needs_none(namespace: &str, name: &str) -> BTreeSet<String> {
    let mut words: BTreeSet<_> = (0..2).map(|attempt| format!("container {name}/app#{attempt} exited")).collect();
    words.insert(format!("link to {namespace}_{name}_nowhere/app/0.log"));
    words.insert(format!("image {}", image(name)));
    words
}

fn image(name: &str) -> String {
    format!("docker.io/library/{name}:1")
}
