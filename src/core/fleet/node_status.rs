//! The status of a node, as its agent shows it on its socket and in the cluster.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::image_list::ListAnswer;
use super::node_disk::{NodeDiskCondition, shown};
use crate::model::{EvictionLimits, Seen};
use crate::plan::{DiskSummary, Pass, PassCounts, PodKnowledge, Scope};

/// The largest status in the cluster, in bytes of JSON. What makes it larger is left out.
const MAX_STATUS_BYTES: usize = 2048;
const MOST_TEXTS: usize = 8;
/// The reason of the condition `Collecting` while something suspends removals.
pub(super) const SUSPENDED: &str = "Suspended";

/// What the agent shows.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// When the agent wrote this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The version of the agent.
    #[schemars(length(max = 64))]
    pub version: String,
    /// `collect` or `observe`, as in the files of the node.
    #[schemars(length(max = 16))]
    pub mode: String,
    /// The disks, that of the images first.
    #[schemars(length(max = 8))]
    pub disks: Vec<DiskSummary>,
    /// What unused images would reclaim, as text.
    #[schemars(length(max = 32))]
    pub reclaimable: String,
    /// The same in bytes.
    #[schemars(with = "i64")]
    pub reclaimable_bytes: u64,
    /// Bytes that the image disk needs although every image was removed that may be.
    #[schemars(with = "i64")]
    pub shortfall_bytes: u64,
    /// The last pass of each kind.
    #[schemars(length(max = 4))]
    pub passes: Vec<PassCounts>,
    /// The policies that apply to the node, by name.
    #[schemars(length(max = 8))]
    pub policies: Vec<String>,
    /// Policies with a mistake, which have no effect, and the mistake.
    #[schemars(length(max = 8))]
    pub policy_faults: Vec<String>,
    /// What became of the images that policies list.
    #[schemars(length(max = 8))]
    pub removals: Vec<ListAnswer>,
    /// `Collecting` = scheduled passes remove objects. `Healthy` = the last passes could do what they should.
    #[schemars(
        length(max = 4),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<NodeDiskCondition>,
    /// What only the socket shows.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub local: Option<LocalStatus>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalStatus {
    pub pid: u32,
    pub started_at: Timestamp,
    pub profile: String,
    /// The settings that decide what is removed, as TOML, without those that are the defaults.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// When the kubelet evicts pods; `null` = an earlier version does not show it.
    pub eviction: Option<EvictionLimits>,
    pub store: PathBuf,
    /// What is being done now, by scope.
    pub running: BTreeMap<String, RunningPass>,
    /// The pass over images that is put off after a start; `null` = none is. It stays here when its time has come.
    pub deferred: Option<DeferredPass>,
    /// The pod sources, as the last pass saw them.
    pub pods: Seen<PodKnowledge>,
    /// Where metrics and health are served, or why they are not; `null` = they are turned off.
    pub metrics_address: Option<Seen<SocketAddr>>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DeferredPass {
    /// When it begins.
    pub until: Timestamp,
    /// The setting that puts it off.
    pub why: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RunningPass {
    pub since: Timestamp,
    /// How many objects the plan removes; 0 = it is still observing.
    pub planned: usize,
    pub done: usize,
}

// === impl NodeStatus ===

impl NodeStatus {
    pub fn of_agent(pid: u32, version: &str, started_at: Timestamp) -> Self {
        let local = LocalStatus { pid, started_at, ..LocalStatus::default() };
        Self { version: version.to_owned(), local: Some(local), ..Self::default() }
    }

    pub fn set_in_force(&mut self, mode: &str, profile: &str) {
        mode.clone_into(&mut self.mode);
        if let Some(local) = &mut self.local {
            profile.clone_into(&mut local.profile);
        }
        self.set_collecting(self.suspended().map(str::to_owned).as_deref());
    }

    pub fn set_begun(&mut self, scope: Scope, since: Timestamp) {
        if let Some(local) = &mut self.local {
            local.running.insert(scope.as_str().to_owned(), RunningPass { since, planned: 0, done: 0 });
        }
    }

    pub fn set_progress(&mut self, scope: Scope, planned: usize) {
        let running = self.local.as_mut().and_then(|local| local.running.get_mut(scope.as_str()));
        if let Some(running) = running {
            (running.planned, running.done) = (planned, running.done + 1);
        }
    }

    pub fn set_passed(&mut self, pass: &Pass, next_at: Option<Timestamp>) {
        if let Some(local) = &mut self.local {
            local.running.remove(pass.scope.as_str());
            local.pods = pass.plan.pods.clone();
        }
        if pass.scope != Scope::Containers {
            self.disks = pass.plan.disks.iter().map(DiskSummary::from).collect();
            self.shortfall_bytes = pass.summary.shortfall_bytes;
        }
        self.passes.retain(|known| known.scope != pass.scope.as_str());
        self.passes.push(PassCounts { next_at, ..pass.into() });
        self.passes.sort_by(|one, other| one.scope.cmp(&other.scope));
        self.set_healthy(self.passes.iter().find_map(PassCounts::fault).as_deref());
    }

    /// Sets the condition `Collecting`: whether scheduled passes remove objects, and why not.
    pub fn set_collecting(&mut self, suspended: Option<&str>) {
        let (status, reason, message) = match suspended {
            Some(cause) => ("False", SUSPENDED, cause),
            None if self.mode == "observe" => ("False", "Observes", "mode \"observe\""),
            None => ("True", "Collects", ""),
        };
        self.set(NodeDiskCondition::new("Collecting", status, reason, message));
    }

    /// Sets the condition `Healthy`: whether the last passes could do what they should, and the first error.
    pub fn set_healthy(&mut self, error: Option<&str>) {
        let (status, reason) = if error.is_some() { ("False", "PassFailed") } else { ("True", "PassesSucceed") };
        self.set(NodeDiskCondition::new("Healthy", status, reason, error.unwrap_or_default()));
    }

    fn set(&mut self, condition: NodeDiskCondition) {
        self.conditions.retain(|known| known.type_ != condition.type_);
        self.conditions.push(condition);
        self.conditions.sort_by(|one, other| one.type_.cmp(&other.type_)); // a change of order would be one of the state
    }

    /// Returns why passes remove nothing although the settings permit it.
    pub fn suspended(&self) -> Option<&str> {
        let collecting = self.condition("Collecting").filter(|condition| condition.reason == SUSPENDED);
        collecting.map(|condition| &*condition.message)
    }

    /// Returns whether a pass over images has ended since the node collects.
    pub fn has_collected(&self) -> bool {
        let collecting = self.condition("Collecting").filter(|condition| condition.status == "True");
        let since = collecting.and_then(|condition| condition.last_transition_time);
        let images = self.passes.iter().filter(|pass| matches!(&*pass.scope, "images" | "all"));
        images.filter_map(|pass| pass.at).max().is_some_and(|at| since.is_some_and(|since| at >= since))
    }

    pub fn condition(&self, name: &str) -> Option<&NodeDiskCondition> {
        self.conditions.iter().find(|condition| condition.type_ == name)
    }

    /// Makes this the status in the cluster: sets its times, with what was written before, and leaves out what only the socket shows
    /// and what makes it too large: first texts of disks, then notes, names of policies, mistakes, and answers.
    pub fn finish(&mut self, written: Option<&Self>, now: Timestamp) {
        (self.at, self.local) = (Some(now), None);
        for pass in &mut self.passes {
            (pass.next_at, pass.errors) = (None, Vec::new());
        }
        for condition in &mut self.conditions {
            let before = written.and_then(|written| written.condition(&condition.type_));
            let same = before.filter(|before| before.status == condition.status);
            condition.message = shown(&condition.message);
            condition.last_transition_time = same.and_then(|same| same.last_transition_time).or(Some(now));
        }
        self.policies.truncate(MOST_TEXTS);
        self.policy_faults.truncate(MOST_TEXTS);
        for text in &mut self.policy_faults {
            *text = shown(text);
        }
        self.removals.truncate(MOST_TEXTS);
        self.removals.iter_mut().for_each(ListAnswer::limit);
        for disk in &mut self.disks {
            (disk.text, disk.forecast) = (shown(&disk.text), shown(&disk.forecast));
        }
        while self.bytes() > MAX_STATUS_BYTES && self.disks.iter_mut().any(DiskSummary::shorten) {}
        while self.bytes() > MAX_STATUS_BYTES && self.removals.iter_mut().any(ListAnswer::shorten) {}
        while self.bytes() > MAX_STATUS_BYTES && self.policies.pop().or_else(|| self.policy_faults.pop()).is_some() {}
        while self.bytes() > MAX_STATUS_BYTES && self.removals.pop().is_some() {}
    }

    fn bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(0, |json| json.len())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::Snapshot;
    use crate::plan::{Plan, Policy, Summary, decide};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    pub fn status(used_percent: u64, suspended: Option<&str>) -> NodeStatus {
        let disks = vec![DiskSummary { holds: "images".to_owned(), used_percent, ..DiskSummary::default() }];
        let mut status = NodeStatus { disks, ..NodeStatus::default() };
        status.set_collecting(suspended);
        status.set_healthy(None);
        status
    }

    #[test]
    fn a_condition_keeps_the_time_of_its_last_change() {
        let time = |status: &NodeStatus| status.condition("Collecting").unwrap().last_transition_time;
        let mut first = status(70, None);
        first.finish(None, at(10));
        let mut second = status(70, None);
        second.finish(Some(&first), at(20));
        let mut third = status(70, Some("paused"));
        third.finish(Some(&second), at(30));
        assert_eq!([time(&first), time(&second), time(&third)], [Some(at(10)), Some(at(10)), Some(at(30))]);
        assert_eq!(third.at, Some(at(30)));
    }

    #[test]
    fn only_the_socket_shows_the_process() {
        let mut status = NodeStatus::of_agent(7, "1.0.0", at(0));
        status.set_begun(Scope::Images, at(1));
        let next = PassCounts { next_at: Some(at(60)), errors: vec!["busy".to_owned()], ..PassCounts::default() };
        status.passes.push(next);
        let shown = serde_json::to_value(&status).unwrap();
        assert_eq!(shown["running"]["images"]["planned"], 0);
        assert_eq!(serde_json::from_value::<NodeStatus>(shown).unwrap(), status);
        status.finish(None, at(10));
        assert_eq!(
            status,
            NodeStatus {
                at: Some(at(10)),
                version: "1.0.0".to_owned(),
                passes: vec![PassCounts::default()],
                ..NodeStatus::default()
            }
        );
    }

    /// Texts are from images, policies and runtimes, and can be of any length.
    #[test]
    fn a_status_is_never_larger_than_its_limit() {
        let long = "x\u{7}y".repeat(4000);
        let note =
            ListAnswer { policy: "p".repeat(253), kept: 9, notes: vec![long.clone(); 50], ..ListAnswer::default() };
        let disk = DiskSummary { text: long.clone(), forecast: long.clone(), ..DiskSummary::default() };
        let mut large = NodeStatus {
            disks: vec![disk; 3],
            policies: vec![long.clone(); 50],
            policy_faults: vec![long.clone(); 50],
            removals: vec![note; 50],
            ..status(70, Some(&long))
        };
        large.finish(None, at(10));
        assert!(large.bytes() <= MAX_STATUS_BYTES, "{}", large.bytes());
        assert!(!serde_json::to_string(&large).unwrap().contains("\\u0007"));
        assert_eq!((large.disks.len(), large.conditions.len()), (3, 2), "what counts is left");
        assert!(!large.removals.is_empty(), "notes and texts go before answers");
    }

    #[test]
    fn the_mode_in_force_decides_whether_a_node_collects_until_it_is_suspended() {
        let mut status = NodeStatus::of_agent(7, "1.0.0", at(0));
        let reason = |status: &NodeStatus| status.condition("Collecting").unwrap().reason.clone();
        status.set_in_force("observe", "kubelet");
        assert_eq!((reason(&status).as_str(), status.suspended()), ("Observes", None));
        assert_eq!(status.local.as_ref().unwrap().profile, "kubelet");
        status.set_collecting(Some("paused"));
        status.set_in_force("collect", "safe");
        assert_eq!((status.mode.as_str(), status.suspended()), ("collect", Some("paused")), "a reload ends no pause");
        status.set_collecting(None);
        assert_eq!((reason(&status).as_str(), status.suspended()), ("Collects", None));
    }

    #[test]
    fn a_status_has_the_last_pass_of_each_kind() {
        let snapshot: Snapshot = serde_json::from_value(serde_json::json!({ "taken_at": at(0) })).unwrap();
        let pass = |scope, second| Pass {
            scope,
            ended_at: at(second),
            duration: None,
            plan: Plan { errors: Vec::new(), ..decide(&snapshot, &Policy::default(), scope) },
            reports: Vec::new(),
            summary: Summary { shortfall_bytes: second.unsigned_abs(), ..Summary::default() },
            not_recorded: None,
        };
        let mut status = NodeStatus::default();
        for (scope, second) in [(Scope::Containers, 1), (Scope::Images, 2), (Scope::Images, 3), (Scope::Containers, 4)]
        {
            status.set_passed(&pass(scope, second), None);
        }
        let passes = status.passes.iter().map(|pass| (pass.scope.as_str(), pass.at.unwrap())).collect::<Vec<_>>();
        assert_eq!(passes, [("containers", at(4)), ("images", at(3))]);
        assert_eq!(status.shortfall_bytes, 3, "a pass over containers says nothing about the disks of images");
        assert_eq!(status.condition("Healthy").unwrap().status, "True");
    }
}
