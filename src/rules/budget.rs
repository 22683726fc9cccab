//! The time that the conditions of a pass may take.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::{Facts, Rule, Verdict};

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
