//! An expression that gives a number for an image: the order in which images are removed.

use std::sync::Arc;

use cel::{IdedExpr, Value};

use super::RuleSubject;
use super::compile::{Compiled, compile};
use super::fact_table::Uses;
use super::facts::Facts;
use super::fault::Fault;

/// An expression that gives a number for an image.
#[derive(Clone, Debug)]
pub struct Score {
    text: String,
    expression: Arc<IdedExpr>,
    uses: Uses,
}

// === impl Score ===

impl Score {
    /// Compiles an expression over the facts of an image.
    ///
    /// # Errors
    /// Each fault of the expression, as of a condition; or a result that is no number.
    pub fn compile(text: &str) -> Result<Self, Vec<Fault>> {
        let Compiled { expression, uses, .. } =
            compile(RuleSubject::Image, text, |value| number(value).map(drop).ok_or("a number"))?;
        Ok(Self { text: text.trim().to_owned(), expression: Arc::new(expression), uses })
    }

    /// Returns the expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the facts that it uses.
    pub fn uses(&self) -> &Uses {
        &self.uses
    }

    /// Returns the number for an image; `None` = the expression cannot be evaluated, or its result is no finite number.
    pub fn evaluate(&self, facts: &Facts<'_>) -> Option<f64> {
        number(&facts.value(&self.expression).ok()?)
    }
}

/// Two expressions are the same if they were written so.
impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

#[expect(clippy::cast_precision_loss, reason = "the order of huge numbers need not be exact")]
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Int(number) => *number as f64,
        Value::UInt(number) => *number as f64,
        Value::Float(number) => *number,
        _ => return None,
    };
    Some(number).filter(|number| number.is_finite())
}
