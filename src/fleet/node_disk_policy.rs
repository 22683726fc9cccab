//! `NodeDiskPolicy`: what the operator of a cluster lets its nodes do. A policy can stop removals, and name unused images to remove under the
//! guards of each node. All other settings are in the files of a node, so that a person who can write policies cannot make an agent remove
//! what is needed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::image_list::ImageList;
use super::pause::{Pause, Suspension};
use super::rollout::goes_ahead;

/// The settings of a policy. Several apply together: the strictest counts.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "kubegc.dev",
    version = "v1alpha1",
    kind = "NodeDiskPolicy",
    plural = "nodediskpolicies",
    shortname = "ndp",
    category = "kubegc",
    derive = "PartialEq",
    label("app.kubernetes.io/name", "kubegc"),
    doc = "What the agents of kubegc on the selected nodes may do. A policy can stop removals, and name images to remove under the guards of each node.",
    printcolumn = r#"{"name":"Paused","type":"string","jsonPath":".spec.paused.reason"}"#,
    printcolumn = r#"{"name":"Until","type":"date","jsonPath":".spec.paused.until"}"#,
    printcolumn = r#"{"name":"Mode","type":"string","jsonPath":".spec.mode"}"#,
    printcolumn = r#"{"name":"Removes","type":"string","jsonPath":".spec.removeImages.names"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = (
    "has(self.paused) || has(self.mode) || has(self.removeImages)",
    "a policy must have paused, mode or removeImages"
))]
#[x_kube(validation = ("!has(self.canary) || (self.canary >= 0 && self.canary <= 100)", "canary is a percentage"))]
pub struct NodeDiskPolicySpec {
    /// The nodes, by their labels. Absent or empty = all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// No removal begins on these nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PolicyPause>,
    /// `observe`: passes on these nodes only show what they would remove, whatever `mode` the files of a node have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<PolicyMode>,
    /// The share of the nodes, in percent, to which the policy does not apply: they go ahead. The names of the nodes decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>")]
    pub canary: Option<u8>,
    /// Images that these nodes remove while they are unused, under their own guards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_images: Option<ImageList>,
}

/// Nodes by their labels, in the form of a label selector: all conditions hold.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// Labels and their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub match_labels: BTreeMap<String, String>,
    /// Conditions on labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub match_expressions: Vec<LabelCondition>,
}

/// A condition on a label.
#[derive(Clone, Debug, Deserialize, PartialEq, schemars::JsonSchema, Serialize)]
pub struct LabelCondition {
    /// The label.
    #[schemars(length(max = 317))]
    pub key: String,
    /// What must hold for it.
    pub operator: LabelOperator,
    /// The values, for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub values: Option<Vec<String>>,
}

/// What must hold for a label.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, schemars::JsonSchema, Serialize)]
pub enum LabelOperator {
    /// It has one of the values.
    In,
    /// It has none of them, or does not exist.
    NotIn,
    /// It exists.
    Exists,
    /// It does not exist.
    DoesNotExist,
}

/// A pause of nodes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(default)]
pub struct PolicyPause {
    /// Why, as status and events on the nodes show it.
    #[schemars(length(max = 200))]
    pub reason: String,
    /// The end; absent = as long as the policy exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What passes do.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyMode {
    /// They remove nothing.
    Observe,
}

/// A policy as an agent applies it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct AppliedPolicy {
    /// Its generation, which answers name.
    pub generation: i64,
    /// Its settings.
    #[serde(flatten)]
    pub spec: NodeDiskPolicySpec,
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
    fn add(&mut self, name: &str, AppliedPolicy { generation, mut spec }: AppliedPolicy) {
        (spec.node_selector, spec.canary) = (None, None);
        let list = spec.remove_images.as_ref();
        if let Some(fault) = list.and_then(|list| list.fault().or_else(|| list.rules(name).err())) {
            self.faults.insert(name.to_owned(), fault);
            spec.remove_images = None;
        }
        self.policies.insert(name.to_owned(), AppliedPolicy { generation, spec });
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
    pub fn suspension(&self, now: Timestamp) -> Option<Suspension> {
        let pauses = self.policies.iter().filter_map(|(name, policy)| Some(policy.spec.paused.as_ref()?.of(name)));
        let pause = pauses.filter(|pause| !pause.is_over(now)).map(Suspension::Paused).next();
        let observes = || self.policies.iter().find(|(_, policy)| policy.spec.mode == Some(PolicyMode::Observe));
        pause.or_else(|| observes().map(|(name, _)| Suspension::Observes(name.clone())))
    }
}

// === impl NodeSelector ===

impl NodeSelector {
    /// Returns whether a node with these labels is selected, or what is wrong with the selector.
    ///
    /// # Errors
    /// A condition without the values that its operator needs, or with a label that is none.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> Result<bool, String> {
        let selector: LabelSelector =
            serde_json::to_value(self).and_then(serde_json::from_value).map_err(|error| error.to_string())?;
        let selector = Selector::try_from(selector).map_err(|error| error.to_string())?;
        Ok(selector.matches(labels))
    }
}

// === impl PolicyPause ===

impl PolicyPause {
    fn of(&self, policy: &str) -> Pause {
        Pause { by: format!("policy {policy}"), reason: self.reason.clone(), since: None, until: self.until }
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
    fn what_is_stored_is_read_again() {
        let policies =
            of(&json!({ "a": { "paused": { "until": "1970-01-01T00:01:00Z" } }, "b": { "mode": "observe" } }), &[]);
        assert_eq!(NodePolicies::read(&serde_json::to_string(&policies).unwrap()), policies);
        assert!(text(&NodePolicies::read("{"), 0).contains("cannot be read"));
    }
}
