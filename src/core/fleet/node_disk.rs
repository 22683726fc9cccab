//! `NodeDisk`: the object in which an agent shows its node in the cluster, and the parts of its status. It is a picture for people: no
//! agent reads it.

use jiff::Timestamp;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::node_status::NodeStatus;
use crate::model::{cut_text, printable_text};

/// The longest text of an error, a reason or a mistake, in characters.
const LONGEST_TEXT: usize = 160;
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
    status = "NodeStatus",
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

// === impl NodeDiskCondition ===

impl NodeDiskCondition {
    pub(super) fn new(name: &str, status: &str, reason: &str, message: &str) -> Self {
        let [type_, status, reason, message] = [name, status, reason, message].map(str::to_owned);
        Self { type_, status, reason, message, last_transition_time: None }
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
