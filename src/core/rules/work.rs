//! How much work an expression is: an upper bound of its steps, by its form and by what an object has.
//!
//! Steps are counted before an evaluation and not timed, so that a plan depends on its input alone. A loop takes as many rounds as
//! its list has elements, and a comparison reads its lists. A list that an expression joins has the elements of all its parts.
//!
//! The conditions of each object have the same budget, whatever the others are and however many. So a plan depends on its input alone, on
//! no order and no clock; and an object with long lists, which a tenant may write, takes nothing from another.

use std::cell::Cell;

use cel::Value;
use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr};

use super::fact_table::Fact;
use super::facts::Values;
use super::{Facts, Rule, Then, Verdict};

/// The elements of an object such as `image`, as a map of its facts.
const FACTS: u64 = 32;
/// A longer text counts as several elements.
const TEXT: usize = 256;
/// The operators that read their lists to the end.
const LISTS: [&str; 4] = ["@in", "_+_", "_==_", "_!=_"];

/// A number that depends on the length of the lists: without a list, for each element of one, and for each pair of elements. Loops are
/// at most two within each other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Work([u64; 3]);

/// What a fact has, or what several have at most.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Extent {
    /// The elements of the longest list or map.
    elements: u64,
    /// The longest text, in parts.
    parts: u64,
}

// === impl Work ===

impl Work {
    /// Returns the steps of an evaluation for an object with these facts, at most.
    pub fn steps(self, of: Extent) -> u64 {
        let Self([alone, each, pair]) = self;
        let elements = of.elements;
        let steps = alone.saturating_add(each.saturating_mul(elements));
        let pairs = pair.saturating_mul(elements.saturating_mul(elements));
        steps.saturating_add(pairs).saturating_mul(1 + of.parts)
    }

    fn and(self, other: Self) -> Self {
        Self(
            [0, 1, 2].map(|degree| self.0.get(degree).unwrap_or(&0).saturating_add(*other.0.get(degree).unwrap_or(&0))),
        )
    }

    /// Returns the work that is done for each of so many elements.
    fn times(self, of: Self) -> Self {
        let (Self([alone, each, pair]), Self([a, b, c])) = (self, of);
        let sum = |products: &[(u64, u64)]| {
            products.iter().fold(0_u64, |sum, (one, other)| sum.saturating_add(one.saturating_mul(*other)))
        };
        // Beyond pairs the last number takes it all: the loops of a condition are two at most.
        Self([
            sum(&[(alone, a)]),
            sum(&[(alone, b), (each, a)]),
            sum(&[(alone, c), (each, b), (pair, a), (each, c), (pair, b), (pair, c)]),
        ])
    }
}

pub(super) fn work(expression: &IdedExpr) -> Work {
    Measure::default().work(expression)
}

/// The variables of the loops around a place, and how many elements each has.
#[derive(Default)]
struct Measure<'e>(Vec<(&'e str, Work)>);

// === impl Measure ===

impl<'e> Measure<'e> {
    fn work(&mut self, expression: &'e IdedExpr) -> Work {
        let one = Work([1, 0, 0]);
        match &expression.expr {
            Expr::Comprehension(it) => self.work_of_loop(it),
            Expr::Call(call) => {
                let reads_lists = LISTS.contains(&call.func_name.as_str());
                let elements = if reads_lists { self.length(expression) } else { Work::default() };
                inner(expression).into_iter().fold(one.and(elements), |sum, part| sum.and(self.work(part)))
            }
            _ => inner(expression).into_iter().fold(one, |sum, part| sum.and(self.work(part))),
        }
    }

    fn work_of_loop(&mut self, it: &'e ComprehensionExpr) -> Work {
        let once = self.work(&it.iter_range).and(self.work(&it.accu_init));
        let rounds = self.length(&it.iter_range);
        // The elements of a fact are texts; those of a list that is made here may be lists.
        let is_fact = matches!(&it.iter_range.expr, Expr::Select(_));
        let element = if is_fact { Work::default() } else { rounds };
        let before = self.0.len();
        let variables = [Some(it.iter_var.as_str()), it.iter_var2.as_deref()];
        self.0.extend(variables.into_iter().flatten().map(|name| (name, element)));
        self.0.push((&it.accu_var, rounds));
        let round = self.work(&it.loop_cond).and(self.work(&it.loop_step)).and(Work([1, 0, 0]));
        let result = self.work(&it.result);
        self.0.truncate(before);
        once.and(result).and(round.times(rounds))
    }

    /// Returns how many elements the lists in an expression have together.
    fn length(&self, expression: &'e IdedExpr) -> Work {
        let all =
            |parts: Vec<&'e IdedExpr>| parts.into_iter().map(|part| self.length(part)).fold(Work::default(), Work::and);
        match &expression.expr {
            Expr::Select(select) => match &select.operand.expr {
                Expr::Ident(object) => Fact::find(object, &select.field).map_or(Work::default(), length_of),
                _ => self.length(&select.operand),
            },
            Expr::Ident(name) => {
                let known = self.0.iter().rev().find(|(variable, _)| variable == name);
                known.map_or(Work([FACTS, 0, 0]), |(_, elements)| *elements)
            }
            Expr::List(list) => all(inner(expression)).and(Work([list.elements.len() as u64, 0, 0])),
            _ => all(inner(expression)),
        }
    }
}

fn length_of(fact: Fact) -> Work {
    let is_list = ["list", "map"].iter().any(|kind| fact.row().kind.starts_with(kind));
    Work([0, u64::from(is_list), 0])
}

/// Returns the parts of an expression.
pub(super) fn inner(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => Vec::new(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map
            .entries
            .iter()
            .filter_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => Some([&entry.key, &entry.value]),
                EntryExpr::StructField(_) => None,
            })
            .flatten()
            .collect(),
        Expr::Comprehension(it) => vec![&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result],
    }
}

// === impl Extent ===

impl Extent {
    /// Returns what each of these facts has, without those that are short.
    pub fn of_each(values: &Values) -> Vec<(Fact, Self)> {
        let extents = values.iter().map(|(fact, value)| (*fact, Self::of_value(value)));
        extents.filter(|(_, extent)| *extent != Self::default()).collect()
    }

    /// Returns the larger of two, in each respect.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { elements: self.elements.max(other.elements), parts: self.parts.max(other.parts) }
    }

    fn of_value(value: &Value) -> Self {
        match value {
            Value::String(text) => Self { elements: 0, parts: (text.len() / TEXT) as u64 },
            Value::List(list) => Self::of_all(list.len(), list.iter()),
            Value::Map(map) => Self::of_all(map.map.len(), map.map.values()),
            _ => Self::default(),
        }
    }

    fn of_all<'v>(elements: usize, values: impl Iterator<Item = &'v Value>) -> Self {
        let whole = Self { elements: elements as u64, parts: 0 };
        values.map(Self::of_value).fold(whole, Self::max)
    }
}

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
        facts.evaluate(&rule.condition)
    }
}
