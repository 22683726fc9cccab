//! What rules of the operator do with removable dead containers.

use std::collections::HashMap;

use super::{Dead, Slot, keep, remove_unless_newest};
use crate::plan::step::Step;

/// Removes the containers that a rule removes, and those over the limit of a rule. All that such a rule decides leave their slot:
/// no other limit counts them.
pub(super) fn apply<'a>(step: &mut Step<'_, 'a>, slots: &mut [Slot<'a>]) {
    for slot in slots {
        let decided: Vec<_> = slot.containers.extract_if(.., |dead| dead.most_of_rule().is_some()).collect();
        let mut seen = HashMap::new();
        let beyond = |dead: &Dead<'a>| {
            let count = seen.entry(dead.rule.map(|rule| &rule.text().name)).or_insert(0_u64);
            *count += 1;
            dead.most_of_rule().is_some_and(|most| *count > most)
        };
        let (beyond, within): (Vec<_>, Vec<_>) = decided.into_iter().partition(beyond);
        for dead in within {
            keep_by_rule(step, dead);
        }
        for dead in beyond.into_iter().rev() {
            remove_by_rule(step, dead);
        }
    }
}

fn keep_by_rule(step: &mut Step, dead: Dead) {
    if let Some(rule) = dead.rule {
        keep(step, dead.container, rule.keeps_within(dead.limit_of_rule()));
    }
}

fn remove_by_rule<'a>(step: &mut Step<'_, 'a>, dead: Dead<'a>) {
    if let Some(rule) = dead.rule {
        remove_unless_newest(step, dead, &rule.removes(dead.limit_of_rule()));
    }
}

// === impl Dead ===

impl Dead<'_> {
    /// Returns how many containers of this slot the rule keeps of those that it decides; `None` = it does not say so.
    fn most_of_rule(&self) -> Option<u64> {
        self.rule?.max_per_pod_container()
    }

    /// Returns the limit of the rule as text; `None` = it has none.
    fn limit_of_rule(&self) -> Option<String> {
        self.rule?.max_per_pod_container_text()
    }
}
