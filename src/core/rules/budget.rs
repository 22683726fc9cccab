//! How much work the conditions of an object may take.
//!
//! Each object has the same share, whatever the others are and however many. So a plan depends on its input alone, on no order and no
//! clock; and an object with long lists, which a tenant may write, takes nothing from another.

use std::cell::Cell;

use super::{Facts, Rule, Then, Verdict};

/// The steps of an object. A comparison has 4, and a loop over ten names about 100, so 64 conditions have 156 each. A pass over
/// containers is due every minute, and 10,000 objects that use all of it take some seconds.
const SHARE: u64 = 10_000;

/// What is left for the conditions of one object. One that takes more is not evaluated: what a rule might keep is kept.
#[derive(Debug)]
pub struct Budget(Cell<u64>);

// === impl Budget ===

impl Default for Budget {
    fn default() -> Self {
        Self(Cell::new(SHARE))
    }
}

impl Budget {
    /// Returns the first rule whose condition holds for an object, with its place. One that cannot be evaluated holds if the rule keeps;
    /// `fault` receives the place and the cause.
    pub fn first<'r>(
        &self,
        rules: impl IntoIterator<Item = (usize, &'r Rule)>,
        facts: &Facts<'_>,
        mut fault: impl FnMut(usize, String),
    ) -> Option<(usize, &'r Rule)> {
        rules.into_iter().find(|(place, rule)| match self.evaluate(rule, facts) {
            Verdict::Holds(holds) => holds,
            Verdict::Error(error) => {
                fault(*place, error);
                rule.text().then == Then::Keep
            }
        })
    }

    /// Evaluates the condition of a rule for the object, if enough is left. One that is too much takes nothing from those behind it.
    pub fn evaluate(&self, rule: &Rule, facts: &Facts<'_>) -> Verdict {
        let Some(left) = self.0.get().checked_sub(facts.steps(rule)) else {
            return Verdict::Error(format!("not evaluated: the conditions for it take more than {SHARE} steps"));
        };
        self.0.set(left);
        rule.evaluate(facts)
    }
}
