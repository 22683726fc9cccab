//! `NodeDisk`: what the agent of a node shows of its disks and of the collection there. It is a picture for people: no agent
//! reads it.

use jiff::Timestamp;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::image_list::ListAnswer;
use crate::model::{cut_text, printable_text};

/// The largest status, in bytes of JSON. What makes it larger is left out.
pub const MAX_STATUS_BYTES: usize = 2048;
/// The longest text of an error, a reason or a mistake, in characters.
const LONGEST_TEXT: usize = 160;
/// The most texts of a list.
const MOST_TEXTS: usize = 8;
/// The settings of a NodeDisk: it has none.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "kubegc.dev",
    version = "v1alpha1",
    kind = "NodeDisk",
    plural = "nodedisks",
    shortname = "nd",
    category = "kubegc",
    derive = "PartialEq",
    status = "NodeDiskStatus",
    label("app.kubernetes.io/name", "kubegc"),
    doc = "The disks of a node and the collection there, as the agent of kubegc on that node shows them.",
    printcolumn = r#"{"name":"Used%","type":"integer","jsonPath":".status.disks[0].usedPercent"}"#,
    printcolumn = r#"{"name":"Reclaimable","type":"string","jsonPath":".status.reclaimable"}"#,
    printcolumn = r#"{"name":"Collecting","type":"string","jsonPath":".status.conditions[?(@.type==\"Collecting\")].status"}"#,
    printcolumn = r#"{"name":"Healthy","type":"string","jsonPath":".status.conditions[?(@.type==\"Healthy\")].status"}"#,
    printcolumn = r#"{"name":"Heard","type":"date","jsonPath":".status.at"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".status.version","priority":1}"#,
    printcolumn = r#"{"name":"Suspended","type":"string","jsonPath":".status.conditions[?(@.type==\"Collecting\")].message","priority":1}"#,
    printcolumn = r#"{"name":"Error","type":"string","jsonPath":".status.conditions[?(@.type==\"Healthy\")].message","priority":1}"#
)]
pub struct NodeDiskSpec {}

/// What the agent shows.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeDiskStatus {
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
    pub passes: Vec<PassSummary>,
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
}

/// One disk.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskSummary {
    /// The first of what it holds: `images`, `logs` or `kubelet`.
    #[schemars(length(max = 16))]
    pub holds: String,
    /// Used space in percent, rounded up as in the kubelet.
    #[schemars(with = "i64")]
    pub used_percent: u64,
    /// Its size in bytes.
    #[schemars(with = "i64")]
    pub capacity_bytes: u64,
    /// Free bytes.
    #[schemars(with = "i64")]
    pub available_bytes: u64,
    /// Where the removal of images begins, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub high_threshold_percent: Option<u64>,
    /// Seconds until the kubelet evicts pods, as far as the last hours show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub eviction_in_seconds: Option<u64>,
}

/// The result of the last pass of a kind.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PassSummary {
    /// `containers`, `images` or `all`.
    #[schemars(length(max = 16))]
    pub scope: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Objects removed.
    #[schemars(with = "i64")]
    pub removed: u64,
    /// Failed removals.
    #[schemars(with = "i64")]
    pub failed: u64,
    /// Reclaimed bytes, measured.
    #[schemars(with = "i64")]
    pub freed_bytes: u64,
}

/// A condition in the form of the Kubernetes API.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct NodeDiskCondition {
    /// Its name, the key of the list.
    #[serde(rename = "type")]
    #[schemars(length(max = 64))]
    pub type_: String,
    /// `True` or `False`.
    #[schemars(length(max = 8))]
    pub status: String,
    /// One word for programs.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// Text for people.
    #[schemars(length(max = 200))]
    pub message: String,
    /// When the status changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
}

// === impl NodeDiskStatus ===

impl NodeDiskStatus {
    /// Sets the condition `Collecting`: whether scheduled passes remove objects, and why not.
    pub fn set_collecting(&mut self, suspended: Option<&str>) {
        let (status, reason, message) = match suspended {
            Some(cause) => ("False", "Suspended", cause),
            None if self.mode == "observe" => ("False", "Observes", "mode \"observe\""),
            None => ("True", "Collects", ""),
        };
        self.conditions.push(NodeDiskCondition::new("Collecting", status, reason, message));
    }

    /// Sets the condition `Healthy`: whether the last passes could do what they should, and the first error.
    pub fn set_healthy(&mut self, error: Option<&str>) {
        let (status, reason) = if error.is_some() { ("False", "PassFailed") } else { ("True", "PassesSucceed") };
        self.conditions.push(NodeDiskCondition::new("Healthy", status, reason, error.unwrap_or_default()));
    }

    /// Returns whether a pass over images has ended since the node collects.
    pub fn has_collected(&self) -> bool {
        let collecting = self.condition("Collecting").filter(|condition| condition.status == "True");
        let since = collecting.and_then(|condition| condition.last_transition_time);
        let images = self.passes.iter().filter(|pass| matches!(&*pass.scope, "images" | "all"));
        images.filter_map(|pass| pass.at).max().is_some_and(|at| since.is_some_and(|since| at >= since))
    }

    /// Returns the condition of this name.
    pub fn condition(&self, name: &str) -> Option<&NodeDiskCondition> {
        self.conditions.iter().find(|condition| condition.type_ == name)
    }

    /// Sets the times of this status, with what was written before, and leaves out what makes it too large: first notes, then names
    /// of policies, mistakes, and answers.
    pub fn finish(&mut self, written: Option<&Self>, now: Timestamp) {
        self.at = Some(now);
        for condition in &mut self.conditions {
            let before = written.and_then(|written| written.condition(&condition.type_));
            let same = before.filter(|before| before.status == condition.status);
            condition.last_transition_time = same.and_then(|same| same.last_transition_time).or(Some(now));
        }
        self.policies.truncate(MOST_TEXTS);
        self.policy_faults.truncate(MOST_TEXTS);
        for text in &mut self.policy_faults {
            *text = shown(text);
        }
        self.removals.truncate(MOST_TEXTS);
        self.removals.iter_mut().for_each(ListAnswer::limit);
        while self.bytes() > MAX_STATUS_BYTES && self.removals.iter_mut().any(ListAnswer::shorten) {}
        while self.bytes() > MAX_STATUS_BYTES && self.policies.pop().or_else(|| self.policy_faults.pop()).is_some() {}
        while self.bytes() > MAX_STATUS_BYTES && self.removals.pop().is_some() {}
    }

    fn bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(0, |json| json.len())
    }
}

// === impl NodeDiskCondition ===

impl NodeDiskCondition {
    fn new(name: &str, status: &str, reason: &str, message: &str) -> Self {
        let [type_, status, reason] = [name, status, reason].map(str::to_owned);
        Self { type_, status, reason, message: shown(message), last_transition_time: None }
    }

    /// Returns the part whose change is a change of the state of the node.
    pub(super) fn state(&self) -> (String, String, String) {
        (self.type_.clone(), self.status.clone(), self.message.clone())
    }
}

/// Returns a text as an object of the cluster may have it: names of tenants are in errors.
pub(super) fn shown(text: &str) -> String {
    cut_text(&printable_text(text), LONGEST_TEXT).into_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    pub fn status(used_percent: u64, suspended: Option<&str>) -> NodeDiskStatus {
        let disks = vec![DiskSummary { holds: "images".to_owned(), used_percent, ..DiskSummary::default() }];
        let mut status = NodeDiskStatus { disks, ..NodeDiskStatus::default() };
        status.set_collecting(suspended);
        status.set_healthy(None);
        status
    }

    #[test]
    fn a_condition_keeps_the_time_of_its_last_change() {
        let time = |status: &NodeDiskStatus| status.condition("Collecting").unwrap().last_transition_time;
        let mut first = status(70, None);
        first.finish(None, at(10));
        let mut second = status(70, None);
        second.finish(Some(&first), at(20));
        let mut third = status(70, Some("paused"));
        third.finish(Some(&second), at(30));
        assert_eq!([time(&first), time(&second), time(&third)], [Some(at(10)), Some(at(10)), Some(at(30))]);
        assert_eq!(third.at, Some(at(30)));
    }

    /// Texts are from images, policies and runtimes, and can be of any length.
    #[test]
    fn a_status_is_never_larger_than_its_limit() {
        let long = "x\u{7}y".repeat(4000);
        let note =
            ListAnswer { policy: "p".repeat(253), kept: 9, notes: vec![long.clone(); 50], ..ListAnswer::default() };
        let mut large = NodeDiskStatus {
            policies: vec![long.clone(); 50],
            policy_faults: vec![long.clone(); 50],
            removals: vec![note; 50],
            ..status(70, Some(&long))
        };
        large.finish(None, at(10));
        assert!(large.bytes() <= MAX_STATUS_BYTES, "{}", large.bytes());
        assert!(!serde_json::to_string(&large).unwrap().contains("\\u0007"));
        assert_eq!((large.disks.len(), large.conditions.len()), (1, 2), "what counts is left");
        assert!(!large.removals.is_empty(), "notes go before answers");
    }
}
