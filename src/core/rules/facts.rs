//! The values of the facts of one object.
//!
//! A fact that is not available is absent. Its use is an error of the evaluation, unless the condition asks `has(…)`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use cel::common::types::{CelBool, CelMap, CelMapKey};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
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

/// The facts that all objects of a pass share.
pub struct PassFacts {
    context: Context<'static, 'static>,
    shared: Named,
}

/// The facts of one object.
pub struct Facts<'w> {
    pass: &'w PassFacts,
    own: Named,
}

/// Facts by their names, and what they have.
struct Named {
    values: Vec<(&'static str, Box<dyn Val>)>,
    extents: Vec<(Fact, Extent)>,
}

/// Returns the names that a condition can use.
pub(super) fn objects(of: RuleSubject) -> &'static [&'static str] {
    match of {
        RuleSubject::Image => &["image", "node", "disk", "now"],
        RuleSubject::Container => &["container", "pod", "node", "disk", "now"],
        RuleSubject::Sandbox => &["sandbox", "pod", "node", "disk", "now"],
        RuleSubject::Log => &["log", "pod", "node", "disk", "now"],
        RuleSubject::Checkpoint => &["checkpoint", "node", "disk", "now"],
        RuleSubject::Object => &["object", "now"],
    }
}

// === impl PassFacts ===

impl PassFacts {
    /// Creates the facts of a pass.
    pub fn new(values: Values) -> Self {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        prepare::add_functions(&mut context);
        Self { context, shared: Named::new(values) }
    }

    /// Returns the facts of an object.
    pub fn with(&self, values: Values) -> Facts<'_> {
        Facts { pass: self, own: Named::new(values) }
    }

    /// Creates the facts of a pass from their examples.
    pub(super) fn example() -> Self {
        Self::new(EXAMPLES.clone())
    }
}

// === impl Named ===

impl Named {
    fn new(values: Values) -> Self {
        let extents = Extent::of_each(&values);
        let named = |(fact, value): (Fact, Value)| Some((fact.row().name, value.try_into().ok()?));
        Self { values: values.into_iter().filter_map(named).collect(), extents }
    }

    fn find(&self, name: &str) -> Option<&dyn Val> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
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
        let extents = self.pass.shared.extents.iter().chain(&self.own.extents);
        let used = extents.filter(|(fact, _)| rule.uses.contains(fact)).map(|(_, extent)| *extent);
        rule.work.steps(used.fold(Extent::default(), Extent::max))
    }

    pub(super) fn value(&self, expression: &IdedExpr) -> Result<Value, String> {
        Value::resolve(expression, &self.context()).map_err(|error| shown(&error))
    }

    /// Checks the types of an expression for an example. Each fault has the id of its place.
    pub(super) fn check_types(&self, expression: &IdedExpr, wants: Wants) -> Vec<(u64, String)> {
        types::check(expression, &self.context(), wants)
    }

    fn context(&self) -> Context<'_, '_> {
        let mut context = self.pass.context.new_inner_scope();
        context.set_variable_resolver(self);
        context
    }

    fn find(&self, name: &str) -> Option<&dyn Val> {
        self.own.find(name).or_else(|| self.pass.shared.find(name))
    }

    /// Returns an object as a map of its facts.
    fn object(&self, name: &str) -> Option<CowVal<'_, '_>> {
        let field =
            |(fact, name): (Fact, &'static str)| Some((name.into(), self.find(fact.row().name)?.clone_as_boxed()));
        let fields: HashMap<CelMapKey, _> = Fact::of(name).filter_map(field).collect();
        Fact::of(name).next().map(|_| CowVal::owned(CelMap::from(fields)))
    }
}

impl VariableResolver for Facts<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        match name.strip_prefix(prepare::HAS) {
            Some(fact) => Some(CowVal::owned(CelBool::from(self.find(fact).is_some()))),
            None => self.find(name).map(CowVal::Borrowed).or_else(|| self.object(name)),
        }
    }
}

/// What the result of a condition is.
pub(super) fn a_bool(value: &Value) -> Result<(), &'static str> {
    matches!(value, Value::Bool(_)).then_some(()).ok_or("a bool")
}

/// Formats an error. It may contain values, which are what others write.
pub(super) fn shown(error: &ExecutionError) -> String {
    let fact = if let ExecutionError::UndeclaredReference(name) = error { name.split_once('.') } else { None };
    let absent = fact.map(|(_, field)| ExecutionError::NoSuchKey(Arc::new(field.to_owned())));
    absent.as_ref().unwrap_or(error).to_string().chars().take(200).collect()
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
