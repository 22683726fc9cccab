//! The policies that apply to one node: which they are, what they suspend, and which of them have mistakes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::image_list::{Fates, ImageList, ListAnswer};
use super::node_disk_policy::{NodeDiskPolicySpec, PolicyMode, PolicyPause};
use super::pause::PauseCause;
use super::rollout::goes_ahead;
use crate::model::{Image, ImageName};

/// A policy as an agent applies it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct AppliedPolicy {
    /// Its uid, which answers name.
    pub uid: String,
    /// Its generation, which answers name.
    pub generation: i64,
    #[serde(flatten)]
    pub spec: NodeDiskPolicySpec,
    /// Why its settings cannot be read.
    #[serde(skip)]
    pub fault: Option<String>,
}

/// The policies that apply to one node, in the order of their names. It is a document beside the store, so that the node keeps them while
/// the API server cannot be reached.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct NodePolicies {
    /// The policies, without their selectors.
    pub policies: BTreeMap<String, AppliedPolicy>,
    /// Policies with a mistake, which have no effect, and the mistake.
    pub faults: BTreeMap<String, String>,
}

// === impl NodePolicies ===

impl NodePolicies {
    /// Selects the policies for a node with this name and these labels.
    pub fn of(all: &BTreeMap<String, AppliedPolicy>, node: &str, labels: &BTreeMap<String, String>) -> Self {
        let mut applied = Self::default();
        for (name, policy) in all {
            if policy.spec.canary.is_some_and(|percent| goes_ahead(node, percent)) {
                continue;
            }
            match policy.spec.node_selector.as_ref().map_or(Ok(true), |selector| selector.matches(labels)) {
                Ok(true) => applied.add(name, policy.clone()),
                Ok(false) => {}
                Err(error) => drop(applied.faults.insert(name.clone(), format!("spec.nodeSelector: {error}"))),
            }
        }
        applied
    }

    /// Adds a policy that selects the node. A list of images with a mistake has no effect; a pause beside it still has.
    fn add(&mut self, name: &str, mut policy: AppliedPolicy) {
        (policy.spec.node_selector, policy.spec.canary) = (None, None);
        let fault = policy.spec.remove_images.as_ref().and_then(ImageList::fault);
        if fault.is_some() {
            policy.spec.remove_images = None;
        }
        if let Some(fault) = policy.fault.take().or(fault.map(|fault| format!("spec.removeImages: {fault}"))) {
            self.faults.insert(name.to_owned(), fault);
        }
        self.policies.insert(name.to_owned(), policy);
    }

    /// Reads the document. One that cannot be read is a pause, until the policies are listed again.
    pub fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|error| Self::unreadable(&error.to_string()))
    }

    /// Returns the policies whose document cannot be read.
    pub fn unreadable(cause: &str) -> Self {
        let reason = format!("the file of the policies cannot be read: {cause}");
        let paused = Some(PolicyPause { reason, until: None });
        let spec = NodeDiskPolicySpec { paused, ..NodeDiskPolicySpec::default() };
        let policies = [(String::new(), AppliedPolicy { spec, ..AppliedPolicy::default() })].into();
        Self { policies, ..Self::default() }
    }

    /// Returns why the policies suspend removals now: a pause before a mode.
    pub fn suspension(&self, now: Timestamp) -> Option<PauseCause> {
        let pauses = self.policies.iter().filter_map(|(name, policy)| Some(policy.spec.paused.as_ref()?.of(name)));
        let pause = pauses.filter(|pause| !pause.is_over(now)).map(PauseCause::Paused).next();
        let observes = || self.policies.iter().find(|(_, policy)| policy.spec.mode == Some(PolicyMode::Observe));
        pause.or_else(|| observes().map(|(name, _)| PauseCause::Observes(name.clone())))
    }
}

/// The images that the policies list.
impl NodePolicies {
    /// Returns the images that policies remove now, by policy.
    pub fn listed(&self, now: Timestamp) -> BTreeMap<String, Vec<ImageName>> {
        let lists = self.lists(now).filter(|(_, _, list)| !list.dry_run);
        lists.map(|(name, _, list)| (name.clone(), list.entries().collect())).collect()
    }

    pub fn lists_images(&self) -> bool {
        self.policies.values().any(|policy| policy.spec.remove_images.is_some())
    }

    /// Returns what became of the images of the policies in a pass that saw these images. `before` are the answers of the pass before.
    pub fn answers(&self, images: &[&Image], fates: &Fates, before: &[ListAnswer], now: Timestamp) -> Vec<ListAnswer> {
        let answer = |(name, policy, list): (&String, &AppliedPolicy, &ImageList)| {
            let before =
                before.iter().find(|before| before.uid == policy.uid && before.generation == policy.generation);
            let (uid, generation) = (policy.uid.clone(), policy.generation);
            ListAnswer { policy: name.clone(), uid, generation, ..list.answer(images, fates, before) }
        };
        self.lists(now).map(answer).collect()
    }

    fn lists(&self, now: Timestamp) -> impl Iterator<Item = (&String, &AppliedPolicy, &ImageList)> {
        let lists = self.policies.iter();
        let lists = lists.filter_map(|(name, policy)| Some((name, policy, policy.spec.remove_images.as_ref()?)));
        lists.filter(move |(_, _, list)| !list.is_over(now))
    }
}

// === impl AppliedPolicy ===

impl AppliedPolicy {
    /// Returns a policy whose settings cannot be read, with these fields. It has no effect, but a pause in it is one of all nodes.
    pub fn unreadable(fault: String, fields: &[String]) -> Self {
        let reason = || format!("the policy cannot be read: {fault}");
        let has_pause = fields.iter().any(|field| field == "paused");
        let paused = has_pause.then(|| PolicyPause { reason: reason(), until: None });
        let spec = NodeDiskPolicySpec { paused, ..NodeDiskPolicySpec::default() };
        Self { spec, fault: Some(fault), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns what a node with these labels does of policies.
    fn of(policies: &serde_json::Value, labels: &[(&str, &str)]) -> NodePolicies {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        NodePolicies::of(&serde_json::from_value(policies.clone()).unwrap(), "node-1", &labels)
    }

    fn text(policies: &NodePolicies, second: i64) -> String {
        policies.suspension(at(second)).map(|suspension| suspension.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_policy_applies_to_the_nodes_that_it_selects() {
        let policies = json!({
            "all": { "mode": "observe" },
            "gpu": { "paused": { "reason": "incident 7" }, "nodeSelector": { "matchLabels": { "pool": "gpu" } } },
            "new": {
                "paused": {},
                "nodeSelector": { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a", "b"] }] },
            },
        });
        let names = |labels: &[(&str, &str)]| of(&policies, labels).policies.into_keys().collect::<Vec<_>>();
        assert_eq!(names(&[]), ["all"]);
        assert_eq!(names(&[("pool", "gpu"), ("zone", "c")]), ["all", "gpu"]);
        assert_eq!(names(&[("pool", "cpu"), ("zone", "b")]), ["all", "new"]);
        assert_eq!(text(&of(&policies, &[]), 0), "mode \"observe\" by policy all");
        assert_eq!(
            text(&of(&policies, &[("pool", "gpu")]), 0),
            "paused by policy gpu: incident 7",
            "the strictest counts"
        );
    }

    #[test]
    fn a_canary_is_not_restrained() {
        let names = |percent| of(&json!({ "a": { "mode": "observe", "canary": percent } }), &[]).policies.len();
        let least = (0..=100).find(|percent| goes_ahead("node-1", *percent)).unwrap();
        assert_eq!([names(0), names(least - 1), names(least), names(100)], [1, 1, 0, 0]);
    }

    #[test]
    fn a_pause_of_a_policy_ends_at_its_time() {
        let policies = json!({
            "a": { "paused": { "reason": "first", "until": "1970-01-01T00:01:00Z" } },
            "b": { "paused": { "reason": "second", "until": "1970-01-01T00:02:00Z" } },
        });
        let texts = [59, 60, 120].map(|second| text(&of(&policies, &[]), second));
        assert_eq!(
            texts,
            [
                "paused by policy a until 1970-01-01T00:01:00Z: first",
                "paused by policy b until 1970-01-01T00:02:00Z: second",
                "",
            ]
        );
    }

    #[test]
    fn a_policy_with_a_mistake_has_no_effect_and_is_named() {
        let odd = json!({ "matchExpressions": [{ "key": "zone", "operator": "In" }] });
        let policies = of(&json!({ "odd": { "paused": {}, "nodeSelector": odd } }), &[("zone", "a")]);
        assert_eq!(policies.suspension(at(0)), None);
        assert!(policies.faults["odd"].starts_with("spec.nodeSelector: "), "{:?}", policies.faults);
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_named_and_its_pause_counts() {
        let unreadable = |field: &str| AppliedPolicy::unreadable("spec: no time".to_owned(), &[field.to_owned()]);
        let all = [("a".to_owned(), unreadable("mode")), ("b".to_owned(), unreadable("paused"))].into();
        let policies = NodePolicies::of(&all, "node-1", &BTreeMap::new());
        assert_eq!(policies.faults.values().collect::<Vec<_>>(), ["spec: no time", "spec: no time"]);
        assert_eq!(text(&policies, 0), "paused by policy b: the policy cannot be read: spec: no time");
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let policies =
            of(&json!({ "a": { "paused": { "until": "1970-01-01T00:01:00Z" } }, "b": { "mode": "observe" } }), &[]);
        assert_eq!(NodePolicies::read(&serde_json::to_string(&policies).unwrap()), policies);
        assert!(text(&NodePolicies::read("{"), 0).contains("cannot be read"));
    }
}
