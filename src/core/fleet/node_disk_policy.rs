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
use super::pause::Pause;

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
    #[serde(skip_serializing_if = "String::is_empty")]
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

// === impl NodeSelector ===

impl NodeSelector {
    /// Returns whether a node with these labels is selected, or what is wrong with the selector.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> Result<bool, String> {
        let selector: LabelSelector =
            serde_json::to_value(self).and_then(serde_json::from_value).map_err(|error| error.to_string())?;
        let selector = Selector::try_from(selector).map_err(|error| error.to_string())?;
        Ok(selector.matches(labels))
    }
}

// === impl PolicyPause ===

impl PolicyPause {
    pub(super) fn of(&self, policy: &str) -> Pause {
        Pause { by: format!("policy {policy}"), reason: self.reason.clone(), since: None, until: self.until }
    }
}
