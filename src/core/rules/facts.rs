//! The values of the facts of one object.
//!
//! A fact that is not available is absent. Its use is an error of the evaluation, unless the condition asks `has(…)`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, IdedExpr, Program, Value};
use chrono::{DateTime, TimeDelta};
use jiff::Timestamp;

use super::fact_table::Fact;
use super::work::Extent;
use super::{Rule, RuleSubject, Verdict, prepare, types};

/// The longest list of an image or a pod. A longer one is not available: a name is what a tenant may write.
pub const MAX_LIST: usize = 256;

/// Checks the type of a result. The error is what it should be.
pub(super) type Wants = fn(&Value) -> Result<(), &'static str>;

/// The values of the facts that are available.
pub type Values = BTreeMap<Fact, Value>;

/// The standard functions of the language.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// The values of the examples: the parser takes its time, and each rule is tried on them.
static EXAMPLES: LazyLock<Values> = LazyLock::new(|| Fact::ALL.iter().map(|fact| (*fact, example(*fact))).collect());

/// The objects that all objects of a pass over a node share.
const SHARED: [&str; 2] = ["node", "disk"];

/// The facts that all objects of a pass share.
pub struct PassFacts(Context<'static, 'static>, Vec<(Fact, Extent)>);

/// The facts of one object.
pub struct Facts<'w>(Context<'w, 'static>, Vec<(Fact, Extent)>);

/// Returns the names that a condition can use.
pub(super) fn objects(of: RuleSubject) -> impl Iterator<Item = &'static str> {
    let shared = SHARED.into_iter().filter(move |_| of != RuleSubject::Object);
    own_objects(of).chain(shared).chain([Fact::Now.row().name])
}

fn own_objects(of: RuleSubject) -> impl Iterator<Item = &'static str> {
    let (own, pod): (&str, Option<&str>) = match of {
        RuleSubject::Image => ("image", None),
        RuleSubject::Container => ("container", Some("pod")),
        RuleSubject::Sandbox => ("sandbox", Some("pod")),
        RuleSubject::Log => ("log", Some("pod")),
        RuleSubject::Checkpoint => ("checkpoint", None),
        RuleSubject::Object => ("object", None),
    };
    [own].into_iter().chain(pod)
}

// === impl PassFacts ===

impl PassFacts {
    /// Creates the facts of a pass.
    pub fn new(values: Values) -> Self {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        prepare::add_functions(&mut context);
        let extents = Extent::of_each(&values);
        add(&mut context, SHARED, values);
        Self(context, extents)
    }

    /// Returns the facts of an object.
    pub fn with(&self, of: RuleSubject, values: Values) -> Facts<'_> {
        let mut context = self.0.new_inner_scope();
        let extents = self.1.iter().copied().chain(Extent::of_each(&values)).collect();
        add(&mut context, own_objects(of), values);
        Facts(context, extents)
    }

    /// Creates the facts of a pass from their examples.
    pub(super) fn example() -> Self {
        Self::new(EXAMPLES.clone())
    }

    /// Returns the facts of an example.
    pub(super) fn example_of(&self, of: RuleSubject) -> Facts<'_> {
        self.with(of, EXAMPLES.clone())
    }
}

/// Adds the variables of a condition: these objects, each with its facts, and the facts that are no part of an object.
fn add(context: &mut Context<'_, '_>, objects: impl IntoIterator<Item = &'static str>, values: Values) {
    let mut objects: BTreeMap<_, HashMap<_, _>> = objects.into_iter().map(|name| (name, HashMap::new())).collect();
    for (fact, value) in values {
        let name = fact.row().name;
        match name.split_once('.') {
            Some((object, field)) => drop(objects.get_mut(object).and_then(|fields| fields.insert(field, value))),
            None => context.add_variable_from_value(name, value),
        }
    }
    for (name, fields) in objects {
        context.add_variable_from_value(name, Value::from(fields));
    }
}

// === impl Facts ===

impl Facts<'_> {
    pub(super) fn evaluate(&self, condition: &IdedExpr) -> Verdict {
        match self.value(condition) {
            Ok(Value::Bool(holds)) => Verdict::Holds(holds),
            Ok(other) => Verdict::Error(format!("is of type {}, expected a bool", other.type_of())),
            Err(error) => Verdict::Error(error),
        }
    }

    /// Returns the steps of the condition of a rule for this object, at most. The facts that it does not use do not count: an object may
    /// have any of what others write.
    pub(super) fn steps(&self, rule: &Rule) -> u64 {
        let used = self.1.iter().filter(|(fact, _)| rule.uses.contains(fact)).map(|(_, extent)| *extent);
        rule.work.steps(used.fold(Extent::default(), Extent::max))
    }

    pub(super) fn value(&self, expression: &IdedExpr) -> Result<Value, String> {
        Value::resolve(expression, &self.0).map_err(|error| shown(&error))
    }

    /// Checks the types of an expression for an example. Each fault has the id of its place.
    pub(super) fn check_types(&self, expression: &IdedExpr, wants: Wants) -> Vec<(u64, String)> {
        types::check(expression, &self.0, wants)
    }
}

/// What the result of a condition is.
pub(super) fn a_bool(value: &Value) -> Result<(), &'static str> {
    matches!(value, Value::Bool(_)).then_some(()).ok_or("a bool")
}

/// Formats an error. It may contain values, which are what others write.
pub(super) fn shown(error: &ExecutionError) -> String {
    error.to_string().chars().take(200).collect()
}

fn example(fact: Fact) -> Value {
    let program = Program::compile(fact.row().example);
    let value = program.map(|program| program.execute(&Context::with_env(Arc::clone(&ENVIRONMENT))));
    value.ok().and_then(Result::ok).unwrap_or(Value::Null)
}

// --- values -----------------------------------------------------------------------------------------------------------

pub fn time(at: Timestamp) -> Value {
    let nanos = u32::try_from(at.subsec_nanosecond().max(0)).unwrap_or_default();
    DateTime::from_timestamp(at.as_second(), nanos).map_or(Value::Null, |at| Value::Timestamp(at.fixed_offset()))
}

pub fn seconds(seconds: i64) -> Value {
    TimeDelta::try_seconds(seconds).map_or(Value::Null, Value::Duration)
}

pub fn number(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Returns a map of texts as a value; `None` = it is too long.
pub fn labels<'a>(labels: impl ExactSizeIterator<Item = (&'a String, &'a String)>) -> Option<Value> {
    let entry = |(key, value): (&String, &String)| (key.clone(), Value::from(value.as_str()));
    (labels.len() <= MAX_LIST).then(|| labels.map(entry).collect::<HashMap<_, _>>().into())
}

/// Returns a list of texts as a value; `None` = it is too long.
pub fn texts(texts: &[String]) -> Option<Value> {
    (texts.len() <= MAX_LIST).then(|| texts.iter().map(String::as_str).map(Value::from).collect::<Vec<_>>().into())
}
