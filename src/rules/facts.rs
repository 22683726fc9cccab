//! The facts that a condition can use: their names, types and examples, and the values of one object.
//!
//! A fact that is not available is absent. Its use is an error of the evaluation, unless the condition asks `has(…)`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, IdedExpr, Program, Value};
use chrono::{DateTime, TimeDelta};
use jiff::Timestamp;

use super::{RuleFor, Verdict, prepare, types};

/// The longest list of an image or a pod. A longer one is not available: a name is what a tenant may write.
pub const MAX_LIST: usize = 256;

/// A fact.
#[derive(Debug)]
pub struct Fact {
    /// Its name, as `image.size_bytes`.
    pub name: &'static str,
    /// Its type in CEL, with the unit.
    pub kind: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// An example, in CEL. It shows the type.
    pub example: &'static str,
}

macro_rules! facts {
    ($($name:literal, $kind:literal, $meaning:literal, $example:literal;)+) => {
        /// All facts.
        pub static FACTS: &[Fact] = &[$(Fact { name: $name, kind: $kind, meaning: $meaning, example: $example }),+];
    };
}

facts! {
    "image.id", "string", "The id.", "'sha256:5db2c03fbaa9'";
    "image.tags", "list of strings", "All names with a tag.", "['registry.example.com/team/app:1.2']";
    "image.digests", "list of strings", "All names with a digest.", "['registry.example.com/team/app@sha256:0123']";
    "image.repository", "string", "The repository of a name, with the registry. Of an image with several, see below.", "'registry.example.com/team/app'";
    "image.registry", "string", "The registry of a name, as above.", "'registry.example.com'";
    "image.size_bytes", "int, bytes", "The size that the runtime reports.", "209715200";
    "image.own_bytes", "int, bytes", "What only this image holds on the disk; absent if the store of the runtime cannot be read.", "52428800";
    "image.created", "timestamp", "When it was built, as its builder wrote it; absent if that is before 1981, as in reproducible builds, or in the future.", "timestamp('2026-10-01T00:00:00Z')";
    "image.labels", "map of strings", "The labels that its builder wrote.", "{'maintainer': 'team@example.com'}";
    "image.layers", "list of strings", "The digests of its layers (diff ids), the lowest first.", "['sha256:6b24']";
    "image.tag_rank", "int", "1 = the newest of its repository on this node by `image.created`; those without such a time come last; absent if its configuration was not read.", "2";
    "image.workloads", "list of strings", "The CronJobs, StatefulSets and Deployments that name it; absent without the pod source kube-api.", "['cronjob/shop/report']";
    "image.pinned", "bool", "Whether the runtime has pinned it.", "false";
    "image.imported", "bool", "Whether it has no digest, so that it cannot be pulled again.", "false";
    "image.first_seen", "timestamp", "The first pass that saw it; absent if it was there before all passes.", "timestamp('2026-11-01T00:00:00Z')";
    "image.last_used", "timestamp", "The last pass that saw it in use; absent if none did.", "timestamp('2026-11-20T00:00:00Z')";
    "image.unused", "duration", "The time since the last use or, if there was none, since it was first seen.", "duration('72h')";
    "image.last_used_by", "string", "A container of the last use: namespace/pod/container.", "'shop/web-1/app'";
    "container.id", "string", "The id.", "'f019e610bfc5'";
    "container.name", "string", "The name in the pod spec.", "'app'";
    "container.image", "string", "The image as the pod spec names it.", "'registry.example.com/team/app:1.2'";
    "container.attempt", "int", "The number of the restart.", "2";
    "container.state", "string", "created, exited or unknown.", "'exited'";
    "container.created", "timestamp", "When it was created.", "timestamp('2026-11-20T00:00:00Z')";
    "container.age", "duration", "The time since it was created.", "duration('24h')";
    "container.exit_code", "int", "The exit code; absent if it has not exited or the status cannot be read.", "137";
    "container.finished", "timestamp", "When it exited; absent as above.", "timestamp('2026-11-20T01:00:00Z')";
    "container.log_bytes", "int, bytes", "The size of its log; absent if it cannot be measured in time.", "1048576";
    "container.layer_bytes", "int, bytes", "The size of its writable layer; absent if the store of the runtime cannot be read.", "1048576";
    "sandbox.id", "string", "The id.", "'a3f1c09d27e4'";
    "sandbox.attempt", "int", "The number of the sandbox in its pod.", "0";
    "sandbox.created", "timestamp", "When it was created.", "timestamp('2026-11-20T00:00:00Z')";
    "sandbox.age", "duration", "The time since it was created.", "duration('24h')";
    "log.name", "string", "The name of the log directory.", "'shop_web-1_a6173aaf-ad5f-4f6e-8a43-2f0b6f6f7c11'";
    "log.age", "duration", "The time since the pod is missing in every list of pods.", "duration('6h')";
    "log.bytes", "int, bytes", "The size of its files; absent if it cannot be measured in time.", "1048576";
    "pod.uid", "string", "The uid; absent if no kubelet created the object.", "'a6173aaf-ad5f-4f6e-8a43-2f0b6f6f7c11'";
    "pod.namespace", "string", "The namespace; absent as above.", "'shop'";
    "pod.name", "string", "The name; absent as above.", "'web-1'";
    "pod.phase", "string", "pending, running, succeeded or failed; absent if the pod is in no list.", "'failed'";
    "pod.deleting", "bool", "Whether its deletion has begun; absent if the pod is in no list.", "false";
    "pod.labels", "map of strings", "The labels; absent if the pod is in no list.", "{'app': 'web'}";
    "pod.annotations", "map of strings", "The annotations, without those of `kubectl apply`; absent as above.", "{'team': 'shop'}";
    "pod.owner_kind", "string", "The kind of the owner that controls it; absent if none does.", "'ReplicaSet'";
    "pod.owner_name", "string", "The name of that owner.", "'web-6d4cf56db6'";
    "node.name", "string", "The name of the node.", "'node-1'";
    "node.labels", "map of strings", "The labels of the node; absent without the pod source kube-api.", "{'pool': 'build'}";
    "disk.used_percent", "int, percent", "The used space of the image disk, rounded up.", "91";
    "disk.free_bytes", "int, bytes", "The free space of the image disk.", "10737418240";
    "disk.free_inodes", "int", "The free inodes of the image disk; absent if it does not count them.", "100000";
    "now", "timestamp", "The time of the pass.", "timestamp('2026-11-26T12:00:00Z')";
}

/// The facts that conditions use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uses(BTreeSet<(&'static str, &'static str)>);

/// Checks the type of a result. The error is what it should be.
pub(super) type Wants = fn(&Value) -> Result<(), &'static str>;

/// The values of an object by name.
pub type Values = HashMap<String, Value>;

/// The standard functions of the language.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// The values of the examples, in the order of [`FACTS`]: the parser takes its time, and each rule is tried on them.
static EXAMPLES: LazyLock<Vec<Value>> = LazyLock::new(|| FACTS.iter().map(Fact::example).collect());

/// The facts that all objects of a pass share.
pub struct PassFacts(Context<'static, 'static>);

/// The facts of one object.
pub struct Facts<'w>(Context<'w, 'static>);

/// Returns the names that a condition can use.
pub(super) fn objects(of: RuleFor) -> impl Iterator<Item = &'static str> {
    let (own, pod): (&str, Option<&str>) = match of {
        RuleFor::Image => ("image", None),
        RuleFor::Container => ("container", Some("pod")),
        RuleFor::Sandbox => ("sandbox", Some("pod")),
        RuleFor::Log => ("log", Some("pod")),
    };
    [own].into_iter().chain(pod).chain(["node", "disk", "now"])
}

// === impl Uses ===

impl Uses {
    /// Returns whether a condition uses this fact of an object.
    pub fn has(&self, object: &str, field: &str) -> bool {
        self.0.contains(&(object, field))
    }

    /// Returns whether a condition uses one of these facts of an object.
    pub fn has_any(&self, object: &str, fields: &[&str]) -> bool {
        fields.iter().any(|field| self.has(object, field))
    }

    /// Adds the facts that others use.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend(&others.0);
    }

    pub(super) fn add(&mut self, object: &str, field: &str) {
        self.0.extend(parts().filter(|known| *known == (object, field)));
    }

    /// Adds all facts of an object: a condition uses it as a whole.
    pub(super) fn add_all_of(&mut self, object: &str) {
        self.0.extend(parts().filter(|(known, _)| *known == object));
    }
}

/// Returns the object and the field of each fact.
fn parts() -> impl Iterator<Item = (&'static str, &'static str)> {
    FACTS.iter().filter_map(|fact| fact.name.split_once('.'))
}

// === impl PassFacts ===

impl PassFacts {
    /// Creates the facts of a pass.
    pub fn new(now: Timestamp, node: Values, disk: Values) -> Self {
        Self::of([("now", time(now)), ("node", node.into()), ("disk", disk.into())])
    }

    fn of(variables: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        prepare::add_functions(&mut context);
        variables.into_iter().for_each(|(name, value)| context.add_variable_from_value(name, value));
        Self(context)
    }

    /// Returns the facts of an object: those of its parts by name, as `image`.
    pub fn with(&self, parts: impl IntoIterator<Item = (&'static str, Values)>) -> Facts<'_> {
        let mut context = self.0.new_inner_scope();
        parts.into_iter().for_each(|(name, values)| context.add_variable_from_value(name, Value::from(values)));
        Facts(context)
    }

    /// Returns the facts of an example.
    pub(super) fn example(of: RuleFor) -> Self {
        let mut parts: BTreeMap<&'static str, Values> = BTreeMap::new();
        let mut variables = Vec::new();
        for (fact, value) in FACTS.iter().zip(EXAMPLES.iter().cloned()) {
            match fact.name.split_once('.') {
                Some((object, field)) => drop(parts.entry(object).or_default().insert(field.to_owned(), value)),
                None => variables.push((fact.name, value)),
            }
        }
        parts.retain(|object, _| objects(of).any(|known| known == *object));
        Self::of(parts.into_iter().map(|(object, values)| (object, Value::from(values))).chain(variables))
    }
}

// === impl Facts ===

impl Facts<'_> {
    /// Evaluates a condition.
    pub(super) fn evaluate(&self, condition: &IdedExpr) -> Verdict {
        match self.value(condition) {
            Ok(Value::Bool(holds)) => Verdict::Holds(holds),
            Ok(other) => Verdict::Error(format!("is of type {}, expected a bool", other.type_of())),
            Err(error) => Verdict::Error(error),
        }
    }

    /// Evaluates an expression.
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

// === impl Fact ===

impl Fact {
    /// Returns the value of the example.
    fn example(&self) -> Value {
        let program = Program::compile(self.example);
        let value = program.map(|program| program.execute(&Context::with_env(Arc::clone(&ENVIRONMENT))));
        value.ok().and_then(Result::ok).unwrap_or(Value::Null)
    }
}

// --- values -----------------------------------------------------------------------------------------------------------

/// Returns a time as a value.
pub fn time(at: Timestamp) -> Value {
    let nanos = u32::try_from(at.subsec_nanosecond().max(0)).unwrap_or_default();
    DateTime::from_timestamp(at.as_second(), nanos).map_or(Value::Null, |at| Value::Timestamp(at.fixed_offset()))
}

/// Returns a duration in seconds as a value.
pub fn seconds(seconds: i64) -> Value {
    TimeDelta::try_seconds(seconds).map_or(Value::Null, Value::Duration)
}

/// Returns a number as a value.
pub fn number(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Returns a map of texts as a value; `None` = it is too long.
pub fn labels<'a>(labels: impl ExactSizeIterator<Item = (&'a String, &'a String)>) -> Option<Value> {
    let entry = |(key, value): (&String, &String)| (key.clone(), Value::from(value.as_str()));
    (labels.len() <= MAX_LIST).then(|| labels.map(entry).collect::<Values>().into())
}

/// Returns a list of texts as a value; `None` = it is too long.
pub fn texts(texts: &[String]) -> Option<Value> {
    (texts.len() <= MAX_LIST).then(|| texts.iter().map(String::as_str).map(Value::from).collect::<Vec<_>>().into())
}
