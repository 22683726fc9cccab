//! The nodes of a cluster as `kubegc fleet` lists them: worst first.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use strum::IntoStaticStr;

use super::image_list::ListAnswer;
use super::node_disk::NodeDiskCondition;
use super::node_status::{NodeStatus, SUSPENDED};

/// An agent that was not heard for this long is silent: it writes at least every ten minutes.
pub const SILENT_AFTER: Duration = Duration::from_mins(15);

/// What is notable of a node, the worst first.
#[derive(Clone, Copy, Debug, Eq, IntoStaticStr, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum NodeState {
    /// The image disk lacks space although every image was removed that may be.
    Short,
    /// The last passes could not do what they should.
    Failing,
    /// A person or a policy has paused it.
    Paused,
    /// The agent has an older version than another of the fleet.
    Old,
    /// The agent was not heard for 15 minutes.
    Silent,
    NoAgent,
    /// By its files or a policy, the agent only observes.
    Observes,
    QuietHours,
    Collects,
}

#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct FleetNode {
    pub node: String,
    pub state: NodeState,
    /// The error, or who suspended removals and why; empty otherwise.
    pub why: String,
    /// Used space of the image disk in percent; `null` = not known.
    pub used_percent: Option<u64>,
    /// Bytes that unused images would reclaim.
    pub reclaimable_bytes: u64,
    /// Bytes that the image disk lacks although every image was removed that may be.
    pub shortfall_bytes: u64,
    /// When the agent was heard last; `null` = never.
    pub heard_at: Option<Timestamp>,
    /// The version of the agent; empty = unknown.
    pub agent: String,
}

/// What a node says of a list of images.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeAnswer<'a> {
    Answered(&'a ListAnswer),
    Waiting,
    /// Nothing, and its agent is not heard.
    NotReached,
}

/// Returns the nodes, worst first. `disks` has what agents show, by node.
pub fn overview(nodes: &[String], disks: &BTreeMap<String, NodeStatus>, now: Timestamp) -> Vec<FleetNode> {
    let newest = disks.values().map(|disk| order_of(&disk.version)).max().unwrap_or_default();
    let node = |name: &String| FleetNode::new(name, disks.get(name), &newest, now);
    let mut nodes: Vec<_> = nodes.iter().map(node).collect();
    nodes.sort_by(|one, other| one.rank().cmp(&other.rank()));
    nodes
}

/// Returns whether the agent was heard lately.
fn is_heard(status: &NodeStatus, now: Timestamp) -> bool {
    let age = status.at.map(|at| now.duration_since(at));
    age.is_some_and(|age| age.as_secs() < SILENT_AFTER.as_secs().cast_signed())
}

/// Returns the numbers of a version, which compare as versions do.
fn order_of(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

// === impl NodeAnswer ===

impl<'a> NodeAnswer<'a> {
    /// Returns the answer of a node to a generation of the policy with this uid, or to a later one.
    pub fn of(status: Option<&'a NodeStatus>, uid: &str, generation: i64, now: Timestamp) -> Self {
        let Some(status) = status.filter(|status| is_heard(status, now)) else { return Self::NotReached };
        let is_it = |answer: &&ListAnswer| answer.uid == uid && answer.generation >= generation;
        status.removals.iter().find(is_it).map_or(Self::Waiting, Self::Answered)
    }
}

// === impl FleetNode ===

impl FleetNode {
    fn new(name: &str, status: Option<&NodeStatus>, newest: &[u64], now: Timestamp) -> Self {
        let nothing = NodeStatus::default();
        let shown = status.unwrap_or(&nothing);
        let (state, why) = match status {
            None => (NodeState::NoAgent, String::new()),
            Some(status) => state_of(status, newest, now),
        };
        Self {
            node: name.to_owned(),
            state,
            why,
            used_percent: shown.disks.first().map(|disk| disk.used_percent),
            reclaimable_bytes: shown.reclaimable_bytes,
            shortfall_bytes: shown.shortfall_bytes,
            heard_at: shown.at,
            agent: shown.version.clone(),
        }
    }

    /// Worst first; of the same state the one with most shortfall, then the fullest.
    fn rank(&self) -> impl Ord + '_ {
        let (short, used) = (std::cmp::Reverse(self.shortfall_bytes), std::cmp::Reverse(self.used_percent));
        (self.state, short, used, &self.node)
    }
}

/// Returns what is notable of a node whose agent was heard once. What a silent agent showed is old, so it is only silent.
fn state_of(status: &NodeStatus, newest: &[u64], now: Timestamp) -> (NodeState, String) {
    let is_false = |name| status.condition(name).filter(|condition| condition.status == "False");
    let message = |condition: &NodeDiskCondition| condition.message.clone();
    let (collecting, healthy) = (is_false("Collecting"), is_false("Healthy"));
    if !is_heard(status, now) {
        return (NodeState::Silent, String::new());
    }
    if status.shortfall_bytes > 0 {
        return (NodeState::Short, healthy.map(message).unwrap_or_default());
    }
    if let Some(condition) = healthy {
        return (NodeState::Failing, message(condition));
    }
    let cause = collecting.filter(|condition| condition.reason == SUSPENDED).map(message).unwrap_or_default();
    let state = match (&*cause, collecting) {
        (cause, _) if cause.starts_with("paused") => return (NodeState::Paused, cause.to_owned()),
        _ if order_of(&status.version).as_slice() < newest => return (NodeState::Old, String::new()),
        (cause, _) if cause.starts_with("quiet hours") => NodeState::QuietHours,
        (_, Some(_)) => NodeState::Observes,
        (_, None) => NodeState::Collects,
    };
    (state, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn status(change: impl FnOnce(&mut NodeStatus)) -> NodeStatus {
        let (version, mode) = ("1.10.0".to_owned(), "collect".to_owned());
        let mut status = NodeStatus { version, mode, at: Some(at(0)), ..NodeStatus::default() };
        change(&mut status);
        status
    }

    fn with(suspended: Option<&str>, error: Option<&str>) -> NodeStatus {
        status(|status| {
            status.set_collecting(suspended);
            status.set_healthy(error);
        })
    }

    #[test]
    fn the_worst_node_is_first() {
        let disks: BTreeMap<_, _> = [
            ("collects", with(None, None)),
            ("failing", with(Some("paused"), Some("no runtime"))),
            (
                "observes",
                status(|status| {
                    status.mode = "observe".to_owned();
                    status.set_collecting(None);
                }),
            ),
            ("old", status(|status| status.version = "1.9.1".to_owned())),
            ("short", status(|status| status.shortfall_bytes = 5)),
            ("shorter", status(|status| status.shortfall_bytes = 6)),
            ("silent", status(|status| (status.at, status.shortfall_bytes) = (Some(at(-900)), 9))),
            ("paused", with(Some("paused by policy a"), None)),
            ("quiet", with(Some("quiet hours until 1970-01-01T01:00:00Z"), None)),
            ("stopped", with(Some("mode \"observe\" by policy a"), None)),
        ]
        .map(|(name, status)| (name.to_owned(), status))
        .into();
        let nodes: Vec<_> = disks.keys().cloned().chain(["absent".to_owned()]).collect();
        let rows = overview(&nodes, &disks, at(0));
        let rows: Vec<_> = rows.iter().map(|row| (row.node.as_str(), row.state, row.why.as_str())).collect();
        assert_eq!(
            rows,
            [
                ("shorter", NodeState::Short, ""),
                ("short", NodeState::Short, ""),
                ("failing", NodeState::Failing, "no runtime"),
                ("paused", NodeState::Paused, "paused by policy a"),
                ("old", NodeState::Old, ""),
                ("silent", NodeState::Silent, ""),
                ("absent", NodeState::NoAgent, ""),
                ("observes", NodeState::Observes, ""),
                ("stopped", NodeState::Observes, "mode \"observe\" by policy a"),
                ("quiet", NodeState::QuietHours, "quiet hours until 1970-01-01T01:00:00Z"),
                ("collects", NodeState::Collects, ""),
            ]
        );
    }

    #[test]
    fn an_answer_is_to_the_generation_or_a_later_one() {
        let answer = ListAnswer { uid: "purge".to_owned(), generation: 2, ..ListAnswer::default() };
        let answered = status(|status| status.removals = vec![answer.clone()]);
        let of = |uid, generation, second| NodeAnswer::of(Some(&answered), uid, generation, at(second));
        assert_eq!(of("purge", 2, 0), NodeAnswer::Answered(&answer));
        assert_eq!(of("purge", 1, 0), NodeAnswer::Answered(&answer));
        assert_eq!(of("purge", 3, 0), NodeAnswer::Waiting);
        assert_eq!(of("other", 1, 0), NodeAnswer::Waiting);
        assert_eq!(of("purge", 2, 900), NodeAnswer::NotReached);
        assert_eq!(NodeAnswer::of(None, "purge", 2, at(0)), NodeAnswer::NotReached);
    }
}
