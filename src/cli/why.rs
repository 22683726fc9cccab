//! `kubegc why`.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value as Json;

use super::documents::Snapshots;
use super::lookup::{Found, find};
use super::pods::{self, PodAnswer};
use super::render::Paint;
use super::session::{block_on, look};
use super::{CliError, ErrorKind, Output, format};
use crate::config::Loaded;
use crate::model::Seen;
use crate::plan::{Explanation, Kind, Plan, PodKnowledge, Scope, decide};

/// Explain why an object is kept or removed
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id, image name, pod (namespace/name or uid) or log path
    ///
    /// The beginning of an id is enough.
    what: String,
    /// Explain a snapshot instead of this node (- for standard input)
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
}

/// One answer.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Said {
    Pod(PodAnswer),
    Object(Answer),
}

/// The answer for one object.
#[derive(Debug, Serialize)]
struct Answer {
    kind: Kind,
    id: String,
    #[serde(skip)]
    title: String,
    decision: Decision,
    /// The reason and its values, as in plans.
    reason: Json,
    /// The rule as a clause about the object.
    rule: String,
    setting: Option<Setting>,
    /// When the decision changes.
    change: String,
    /// The pod sources, where the object belongs to a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<Seen<PodKnowledge>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Remove,
    NextInLine,
    Keep,
}

/// The setting that decides.
#[derive(Debug, Serialize)]
struct Setting {
    key: &'static str,
    value: Json,
    origin: String,
}

/// Runs the command.
pub fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let policy = &loaded.settings.policy;
    let (snapshot, plan) = match &args.snapshot {
        Some(file) => {
            let snapshot = Snapshots::open(file)?.first()?;
            let plan = decide(&snapshot, policy, Scope::All);
            (snapshot, plan)
        }
        None => block_on(look(loaded, Scope::All))?,
    };
    let found = find(&snapshot, &policy.logs, &args.what);
    let pods = pods::answers(&snapshot, &args.what, &plan).into_iter().map(Said::Pod);
    let objects = found.into_iter().filter_map(|found| answer(found, &plan, loaded)).map(Said::Object);
    let answers: Vec<_> = pods.chain(objects).collect();
    if answers.is_empty() {
        return Err(nothing(&args.what));
    }
    print(&answers, &plan, output)
}

fn nothing(what: &str) -> CliError {
    CliError::message(ErrorKind::Usage, format!("no container, sandbox, image, pod or path matches {what:?}"))
        .hint("name an id or its beginning, an image name or digest, a pod as namespace/name or uid, or a log path")
}

/// Returns the decision of the plan about an object.
fn answer(found: Found, plan: &Plan, loaded: &Loaded) -> Option<Answer> {
    let is_it = |kind, id: &str| kind == found.kind && id == found.id;
    let action = |(action, decision): (&crate::plan::Action, _)| {
        let is_it = is_it(action.target.kind(), &action.target.id());
        is_it.then(|| (decision, serde_json::to_value(&action.reason), action.reason.explain(), action.pod.is_some()))
    };
    let removed = plan.actions.iter().map(|action| (action, Decision::Remove));
    let next = plan.images.reserve.iter().map(|action| (action, Decision::NextInLine));
    let mut kept = plan.kept.iter().filter(|kept| is_it(kept.kind, &kept.id));
    let said = removed.chain(next).find_map(action).or_else(|| {
        let kept = kept.next()?;
        Some((Decision::Keep, serde_json::to_value(&kept.reason), kept.reason.explain(), kept.pod.is_some()))
    });
    let (decision, reason, explanation, is_of_pod) = said?;
    let answer = Answer::new(found, decision, reason.unwrap_or_default(), explanation, loaded);
    Some(if is_of_pod { answer.with_pods(plan) } else { answer })
}

// === impl Said ===

impl Said {
    /// Returns whether the answer depends on the pod sources.
    fn is_of_pod(&self) -> bool {
        match self {
            Self::Pod(_) => true,
            Self::Object(answer) => answer.pods.is_some(),
        }
    }
}

// === impl Answer ===

impl Answer {
    fn new(found: Found, decision: Decision, reason: Json, said: Explanation, loaded: &Loaded) -> Self {
        let setting = said.setting.and_then(|name| setting(found.kind, name, loaded));
        let Found { kind, id, title } = found;
        let (rule, change) = (said.rule.into_owned(), said.change.to_owned());
        Self { kind, id, title, decision, reason, rule, setting, change, pods: None }
    }

    fn with_pods(self, plan: &Plan) -> Self {
        Self { pods: Some(plan.pods.clone()), ..self }
    }

    fn text(&self, paint: Paint) -> String {
        let decision = match self.decision {
            Decision::Remove => paint.yellow("remove"),
            Decision::NextInLine => "keep, unless the removals reclaim less space than estimated".to_owned(),
            Decision::Keep => paint.green("keep"),
        };
        let mut text = format!("{}\n  {decision}: {}\n", format::printable(&self.title), format::printable(&self.rule));
        if let Some(setting) = &self.setting {
            let _ = writeln!(text, "  setting: {} = {} ({})", setting.key, setting.value, setting.origin);
        }
        let _ = writeln!(text, "  changes when: {}", self.change);
        text
    }
}

/// Returns the setting with its value. Containers and images have a `min_age` each.
fn setting(kind: Kind, name: &str, loaded: &Loaded) -> Option<Setting> {
    let key = match (name, kind) {
        ("min_age", Kind::Image) => crate::config::find("images.min_age"),
        ("min_age", _) => crate::config::find("containers.min_age"),
        _ => crate::config::find(name),
    }?;
    let value = serde_json::to_value(key.get(&loaded.settings)).unwrap_or_default();
    Some(Setting { key: key.name, value, origin: loaded.origin(key).to_string() })
}

fn print(answers: &[Said], plan: &Plan, output: &mut Output) -> Result<(), CliError> {
    let paint = Paint { on: output.color };
    output.result(&answers, |_| text(answers, plan, paint))
}

fn text(answers: &[Said], plan: &Plan, paint: Paint) -> String {
    let text = |said: &Said| match said {
        Said::Pod(pod) => pod.text(),
        Said::Object(answer) => answer.text(paint),
    };
    let mut texts: Vec<_> = answers.iter().map(text).collect();
    if answers.iter().any(Said::is_of_pod) {
        texts.push(format!("pods: {}\n", format::printable(&pods::sources_of(plan))));
    }
    texts.join("\n")
}
