//! What the workers did, as data.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::Identity;
use crate::owners::{ActionWord, Propagation};

/// One action on an object, and its result.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ClusterOutcome {
    pub action: ActionWord,
    pub object: Identity,
    /// Of a deletion: what happens to the dependents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation: Option<Propagation>,
    /// Of a deletion by owner references: its first owners at that moment, as `Deployment/web`, and how many more there were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// Why, as in a plan.
    pub reason: String,
    pub result: ClusterResult,
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize, strum::Display, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ClusterResult {
    /// The object does not exist any more.
    Removed,
    /// Its deletion has begun; finalizers or a grace period hold the object.
    Accepted,
    /// References or a finalizer were removed.
    Changed,
    AlreadyDeleted,
    DryRun,
}

/// An object whose check or change failed, and the last cause.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ClusterFailure {
    pub object: Identity,
    pub cause: String,
}
