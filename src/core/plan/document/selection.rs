//! Limits a plan to the objects of a saved plan.

use std::collections::{HashMap, HashSet};

use super::action::{Action, Target, key};
use super::reason::RemoveReason;

/// The objects that may be removed, and why the saved plan removes them.
pub(in crate::plan) struct Selection<'a> {
    wanted: HashMap<String, &'a RemoveReason>,
    /// Objects that the saved plan removes because their pod is deleted, without proof of the deletion.
    unproven: HashSet<String>,
}

// === impl Selection ===

impl<'a> Selection<'a> {
    pub fn of(actions: impl Iterator<Item = &'a Action>) -> Self {
        Self { wanted: actions.map(|action| (action.key(), &action.reason)).collect(), unproven: HashSet::new() }
    }

    /// Returns whether the saved plan removes this object for a reason that still applies.
    pub fn allows(&mut self, target: &Target, reason: &RemoveReason) -> bool {
        let key = key(target.kind(), &target.id());
        match self.wanted.get(&key) {
            None => false,
            Some(RemoveReason::PodDeleted {}) if *reason != (RemoveReason::PodDeleted {}) => {
                self.unproven.insert(key);
                false
            }
            Some(_) => true,
        }
    }

    pub fn into_unproven(self) -> HashSet<String> {
        self.unproven
    }
}
