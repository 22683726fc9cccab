//! The time that the conditions of a pass may take.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::{Facts, Rule, Then, Verdict};

/// 10,000 objects with 64 simple conditions each take a part of it. A pass over containers is due every minute.
const PASS: Duration = Duration::from_secs(20);

/// The time that is left for conditions. Beyond it, none is evaluated: what a rule might keep is kept.
#[derive(Debug)]
pub struct Budget(Cell<Duration>);

// === impl Budget ===

impl Default for Budget {
    fn default() -> Self {
        Self(Cell::new(PASS))
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

    /// Evaluates the condition of a rule for an object, if there is time left.
    #[expect(
        clippy::disallowed_methods,
        reason = "measures how long evaluations take; no decision sees the time itself"
    )]
    pub fn evaluate(&self, rule: &Rule, facts: &Facts<'_>) -> Verdict {
        let left = self.0.get();
        if left.is_zero() {
            return Verdict::Error(format!("not evaluated: the rules of this pass took {} s", PASS.as_secs()));
        }
        let start = Instant::now();
        let verdict = rule.evaluate(facts);
        self.0.set(left.saturating_sub(start.elapsed()));
        verdict
    }

    /// Creates a budget without time.
    #[cfg(test)]
    pub fn spent() -> Self {
        Self(Cell::new(Duration::ZERO))
    }
}
