//! What came of a whole plan.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Halt, Report};
use crate::plan::Kind;

/// What came of a plan, counted.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Summary {
    /// How many actions ended how: the kind of object, then the outcome's word.
    #[serde(default)]
    pub outcomes: BTreeMap<Kind, BTreeMap<String, usize>>,
    /// Bytes that came back, by kind: measured for images, counted in blocks for logs. Two kinds may lie on one disk.
    #[serde(default)]
    pub freed_bytes: BTreeMap<Kind, u64>,
    /// Actions that were not begun, after a stop or for the reasons in `halts`.
    #[serde(default)]
    pub not_begun: usize,
    /// Why actions were not begun, other than a stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub halts: Vec<Halt>,
    /// Says that a stop was asked for.
    #[serde(default)]
    pub is_stopped: bool,
    /// Bytes by which the measured disk misses the plan's target, when all was done. 0 also where there is no target or
    /// nothing could be measured.
    #[serde(default)]
    pub shortfall_bytes: u64,
}

// === impl Summary ===

impl Summary {
    /// Counts a report.
    pub fn add(&mut self, report: &Report) {
        let kind = report.action.target.kind();
        *self.outcomes.entry(kind).or_default().entry(report.outcome.kind().to_owned()).or_default() += 1;
        *self.freed_bytes.entry(kind).or_default() += report.freed_bytes.unwrap_or_default();
    }

    /// How many actions of all kinds ended with this word of [`super::Outcome::kind`].
    pub fn count(&self, outcome: &str) -> usize {
        self.outcomes.values().filter_map(|outcomes| outcomes.get(outcome)).sum()
    }
}
