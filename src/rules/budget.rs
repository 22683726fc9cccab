//! How much work the conditions of an object may take.
//!
//! Each object of a pass has the same share, whatever the others are. So a plan depends on its input alone, and on no order and no
//! clock; and an object with long lists, which a tenant may write, takes nothing from another.

use std::cell::Cell;

use super::{Facts, Rule, Then, Verdict};

/// The steps of all objects of a pass: some seconds. For 10,000 objects with 64 conditions each it is 156 steps a condition; a comparison
/// has 4, and a loop over ten names about 100. A pass over containers is due every minute.
const PASS: u64 = 100_000_000;

/// The work that the conditions of each object may take.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    steps: u64,
}

/// What is left for the conditions of one object. Beyond it, none is evaluated: what a rule might keep is kept.
#[derive(Debug)]
pub struct ObjectBudget {
    left: Cell<u64>,
    all: u64,
}

// === impl Budget ===

impl Budget {
    /// Creates the budget of a pass over so many objects.
    pub fn of_objects(objects: usize) -> Self {
        Self { steps: PASS / u64::try_from(objects).unwrap_or(u64::MAX).max(1) }
    }

    /// Returns the share of an object.
    pub fn of_object(self) -> ObjectBudget {
        ObjectBudget { left: Cell::new(self.steps), all: self.steps }
    }
}

// === impl ObjectBudget ===

impl ObjectBudget {
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

    /// Evaluates the condition of a rule for the object, if enough is left.
    pub fn evaluate(&self, rule: &Rule, facts: &Facts<'_>) -> Verdict {
        let Some(left) = self.left.get().checked_sub(facts.steps(rule)) else {
            self.left.set(0);
            return Verdict::Error(format!("not evaluated: the conditions for it take more than {} steps", self.all));
        };
        self.left.set(left);
        rule.evaluate(facts)
    }
}
