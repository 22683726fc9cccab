//! Rules of the operator: conditions in the Common Expression Language (CEL), and what follows.
//!
//! Rules are ordered. The first whose condition holds for an object decides. Where none holds, the settings decide. `keep` keeps
//! an object; `remove` removes an unused image or a dead container that no guard keeps; `delete` deletes an object of a cluster; limits apply in place of those in the
//! settings. An error of an evaluation, such as a fact that is not available, counts as a condition that holds for `keep`, and as
//! one that does not otherwise.
//!
//! What a rule can do is bounded: the length and the depth of an expression, loops in loops, the length of a list. An expression
//! sees the facts of one object and nothing else: no files, no network, no clock other than the time of the pass.

#![cfg_attr(not(test), forbid(clippy::disallowed_methods, clippy::disallowed_types))]

mod check;
mod compile;
mod fact_table;
mod facts;
mod fault;
mod prepare;
mod score;
#[cfg(test)]
mod tests;
mod types;
mod work;

use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use strum::{EnumString, IntoStaticStr, VariantNames};

pub use cel::Value;
use compile::Compiled;
pub use compile::MAX_LENGTH;
pub use fact_table::{Fact, Need, Uses};
pub use facts::{Facts, MAX_LIST, PassFacts, Values, labels, number, seconds, texts, time};
pub use fault::Fault;
pub use score::Score;
pub use work::Budget;
use work::Work;

/// What a rule is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RuleSubject {
    Image,
    Container,
    Sandbox,
    /// Log directories of deleted pods, and their logs in the archive.
    Log,
    /// Checkpoints of containers that the kubelet made.
    Checkpoint,
    /// Objects of a cluster, which only `kubegc controller` deletes.
    Object,
}

/// What follows if the condition of a rule holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Then {
    /// The object is kept.
    Keep,
    /// The object is removed: an unused image, whatever the disk usage, a dead container, whatever the limits, or a checkpoint. The
    /// guards and the minimum age apply.
    Remove,
    /// The object of a cluster is deleted.
    Delete,
    /// These limits apply to the object in place of those in the settings.
    Limits(Limits),
}

/// Limits for the objects of a rule. `None` = that of the settings.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Limits {
    /// The minimum age of an image or a container.
    pub min_age: Option<Duration>,
    /// How long an image may be unused; zero = without limit.
    pub max_age: Option<Duration>,
    /// How many dead instances of a container in a pod are kept, of those that the rule decides.
    pub max_per_pod_container: Option<u64>,
    /// How long the logs of a pod are kept after it was deleted.
    pub keep_for: Option<Duration>,
    /// The most bytes of what only the archive has of the logs that the rule decides.
    pub budget: Option<u64>,
    /// The most bytes of the images that the rule decides.
    pub total: Option<ImageTotal>,
}

/// A limit on the bytes of images: removal begins above the one number, and ends at the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ImageTotal {
    /// Where it begins.
    pub above_bytes: u64,
    /// Where it ends; less.
    pub until_bytes: u64,
}

/// A rule, as the operator wrote it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleText {
    /// Its name, for the plan.
    pub name: String,
    /// What it is about.
    pub subject: RuleSubject,
    /// Of a rule for objects: their resource, as `jobs.batch`. Empty otherwise.
    pub resource: String,
    pub when: String,
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
    condition: Arc<cel::IdedExpr>,
    work: Work,
    uses: Uses,
    doubts: Vec<Fault>,
}

/// The rules, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Whether the condition holds.
    Holds(bool),
    /// Why the condition could not be evaluated.
    Error(String),
}

// === impl Rules ===

impl Rules {
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// Returns the facts that the conditions use.
    pub fn uses(&self) -> Uses {
        self.iter().flat_map(Rule::uses).copied().collect()
    }

    /// Returns the same rules with every limit exceeded: a plan that was saved has applied them.
    #[must_use]
    pub fn without_limits(&self) -> Self {
        self.iter().cloned().map(Rule::without_limits).collect()
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
    /// Each fault of the condition: syntax, an unknown fact or function, wrong types, a result that is
    /// not a boolean, or too long or too deep.
    pub fn compile(text: RuleText) -> Result<Self, Vec<Fault>> {
        let Compiled { expression, work, uses, doubts } = compile::compile(text.subject, &text.when, facts::a_bool)?;
        Ok(Self { text, condition: Arc::new(expression), work, uses, doubts })
    }

    /// Returns the rule as it was written.
    pub fn text(&self) -> &RuleText {
        &self.text
    }

    /// Returns the facts that its condition uses.
    pub fn uses(&self) -> &Uses {
        &self.uses
    }

    /// Returns what is allowed in its condition and probably not meant.
    pub fn doubts(&self) -> &[Fault] {
        &self.doubts
    }

    /// Returns whether it is for logs and asks for facts of their pods.
    pub fn asks_pods_of_logs(&self) -> bool {
        self.text.subject == RuleSubject::Log && self.uses.iter().any(|fact| fact.is_of_pod())
    }

    /// Returns its limit on the bytes of images.
    pub fn total(&self) -> Option<ImageTotal> {
        self.limits()?.total
    }

    /// Returns whether the rule applies on a day.
    pub fn applies_on(&self, day: Date) -> bool {
        self.text.until.is_none_or(|until| day < until)
    }

    /// Returns the limits that it sets; `None` = it sets none.
    pub fn limits(&self) -> Option<&Limits> {
        match &self.text.then {
            Then::Limits(limits) => Some(limits),
            Then::Keep | Then::Remove | Then::Delete => None,
        }
    }

    fn without_limits(mut self) -> Self {
        if let Then::Limits(limits) = &mut self.text.then {
            let zero = Some(Duration::ZERO);
            let (max_per_pod_container, budget) = (Some(0), Some(0));
            let total = limits.total.map(|_| ImageTotal { above_bytes: 0, until_bytes: 0 });
            *limits = Limits { min_age: zero, max_age: None, max_per_pod_container, keep_for: zero, budget, total };
        }
        self
    }
}

/// Two rules are the same if they were written so.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
