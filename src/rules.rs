//! Rules of the operator: conditions in the Common Expression Language (CEL), and what follows.
//!
//! Rules are ordered. The first whose condition holds for an object decides. Where none holds, the settings decide. `keep` keeps
//! an object; `remove` removes an unused image that no other rule and no guard keeps. An error of an evaluation, such as a fact
//! that is not available, counts as a condition that holds for `keep`, and as one that does not for `remove`.
//!
//! What a rule can do is bounded: the length and the depth of an expression, loops in loops, the length of a list. An expression
//! sees the facts of one object and nothing else: no files, no network, no clock other than the time of the pass.

mod check;
mod compile;
mod facts;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::civil::Date;
use strum::{EnumString, IntoStaticStr, VariantNames};

pub use cel::Value;
pub use compile::MAX_LENGTH;
pub use facts::{FACTS, Fact, Facts, Uses, Values, World, labels, number, seconds, texts, time};

/// What a rule is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RuleFor {
    /// Images.
    Image,
    /// Dead containers.
    Container,
}

/// What follows if the condition of a rule holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Then {
    /// The object is kept.
    Keep,
    /// The image is removed if it is unused, whatever the disk usage. The guards and the minimum age apply.
    Remove,
}

/// A rule, as the operator wrote it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleText {
    /// Its name, for the plan.
    pub name: String,
    /// What it is about.
    pub of: RuleFor,
    /// The condition.
    pub when: String,
    /// What follows.
    pub then: Then,
    /// The day, in UTC, on which it no longer applies; `None` = it always applies.
    pub until: Option<Date>,
    /// A note for people; empty = none.
    pub note: String,
}

/// A rule whose condition is compiled.
#[derive(Clone, Debug)]
pub struct Rule {
    text: RuleText,
    program: Arc<cel::Program>,
    uses: Uses,
}

/// The rules, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(Vec<Rule>);

/// What an evaluation says.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Whether the condition holds.
    Holds(bool),
    /// Why it cannot be said.
    Error(String),
}

// === impl Rules ===

impl Rules {
    /// Returns the rules.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// Returns whether a condition uses one of these facts of an object.
    pub fn use_any(&self, object: &str, fields: &[&str]) -> bool {
        self.iter().any(|rule| fields.iter().any(|field| rule.uses.has(object, field)))
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Rule> for Rules {
    fn from_iter<T: IntoIterator<Item = Rule>>(rules: T) -> Self {
        Self(rules.into_iter().collect())
    }
}

// === impl Rule ===

impl Rule {
    /// Compiles the condition of a rule.
    ///
    /// # Errors
    /// Each fault of the condition, with its line and column: syntax, an unknown fact or function, wrong types, a result that is
    /// not a boolean, or too long or too deep.
    pub fn compile(text: RuleText) -> Result<Self, Vec<String>> {
        let (program, uses) = compile::compile(text.of, &text.when)?;
        Ok(Self { text, program: Arc::new(program), uses })
    }

    /// Returns the rule as it was written.
    pub fn text(&self) -> &RuleText {
        &self.text
    }

    /// Returns the facts that its condition uses.
    pub fn uses(&self) -> &Uses {
        &self.uses
    }

    /// Returns whether the rule applies on a day.
    pub fn applies_on(&self, day: Date) -> bool {
        self.text.until.is_none_or(|until| day < until)
    }

    /// Evaluates the condition for an object.
    pub fn evaluate(&self, facts: &Facts<'_>) -> Verdict {
        facts.evaluate(&self.program)
    }
}

/// Two rules are the same if they were written so.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
