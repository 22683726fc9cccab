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
use super::{CliError, ErrorKind, Format, Output, format};
use crate::config::Loaded;
use crate::model::Seen;
use crate::plan::{Explanation, Kind, Plan, PodKnowledge, Scope, decide};

/// Say why something stays or goes, and what would change that
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A container's or sandbox's id, an image's name, digest or id, a pod as namespace/name or uid, or a path of a log;
    /// the beginning of an id is enough
    what: String,
    /// Ask about this snapshot, not about this node; - is standard input
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
    /// The rule and its values, as plans name them.
    reason: Json,
    /// The rule as a sentence.
    rule: String,
    setting: Option<Setting>,
    /// What would change the decision.
    change: String,
    /// Of what belongs to a pod: where the knowledge of pods came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<Seen<PodKnowledge>>,
    #[serde(skip)]
    known_from: Option<String>,
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

/// Asks and prints.
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
    print(&answers, output)
}

fn nothing(what: &str) -> CliError {
    CliError::message(ErrorKind::Usage, format!("nothing here is {what:?}"))
        .hint("looked at the ids of containers, sandboxes and images, names and digests of images, pods, log paths")
}

/// What the plan says of an object.
fn answer(found: Found, plan: &Plan, loaded: &Loaded) -> Option<Answer> {
    let is_it = |kind, id: &str| kind == found.kind && id == found.id;
    let action = |(action, decision): (&crate::plan::Action, _)| {
        let is_it = is_it(action.target.kind(), &action.target.id());
        is_it.then(|| (decision, serde_json::to_value(&action.reason), action.reason.explain(), action.pod.is_some()))
    };
    let going = plan.actions.iter().map(|action| (action, Decision::Remove));
    let next = plan.images.reserve.iter().map(|action| (action, Decision::NextInLine));
    let mut kept = plan.kept.iter().filter(|kept| is_it(kept.kind, &kept.id));
    let said = going.chain(next).find_map(action).or_else(|| {
        let kept = kept.next()?;
        Some((Decision::Keep, serde_json::to_value(&kept.reason), kept.reason.explain(), kept.pod.is_some()))
    });
    let (decision, reason, explanation, is_of_pod) = said?;
    let answer = Answer::new(found, decision, reason.unwrap_or_default(), explanation, loaded);
    Some(if is_of_pod { answer.with_pods(plan) } else { answer })
}

// === impl Answer ===

impl Answer {
    fn new(found: Found, decision: Decision, reason: Json, said: Explanation, loaded: &Loaded) -> Self {
        let setting = said.setting.and_then(|name| setting(found.kind, name, loaded));
        let Found { kind, id, title } = found;
        let (rule, change) = (said.rule, said.change.to_owned());
        Self { kind, id, title, decision, reason, rule, setting, change, pods: None, known_from: None }
    }

    fn with_pods(self, plan: &Plan) -> Self {
        Self { pods: Some(plan.pods.clone()), known_from: Some(pods::known_from(plan)), ..self }
    }

    fn text(&self, paint: Paint) -> String {
        let decision = match self.decision {
            Decision::Remove => paint.yellow("goes"),
            Decision::NextInLine => "stays, and is next in line if the space is short".to_owned(),
            Decision::Keep => paint.green("stays"),
        };
        let mut text = format!("{}\n  {decision}: {}\n", format::printable(&self.title), format::printable(&self.rule));
        if let Some(setting) = &self.setting {
            let _ = writeln!(text, "  setting: {} = {} ({})", setting.key, setting.value, setting.origin);
        }
        let _ = writeln!(text, "  what would change it: {}", self.change);
        if let Some(known_from) = &self.known_from {
            let _ = writeln!(text, "  pods known from: {}", format::printable(known_from));
        }
        text
    }
}

/// The setting with its value. Containers and images have a `min_age` each.
fn setting(kind: Kind, name: &str, loaded: &Loaded) -> Option<Setting> {
    let key = match (name, kind) {
        ("min_age", Kind::Image) => crate::config::find("images.min_age"),
        ("min_age", _) => crate::config::find("containers.min_age"),
        _ => crate::config::find(name),
    }?;
    let value = serde_json::to_value(key.get(&loaded.settings)).unwrap_or_default();
    Some(Setting { key: key.name, value, origin: loaded.origin(key).to_string() })
}

fn print(answers: &[Said], output: &mut Output) -> Result<(), CliError> {
    match output.format.unwrap_or(Format::Table) {
        Format::Json => output.json(&answers),
        Format::Yaml => output.yaml(&answers),
        Format::Table | Format::Wide => {
            let paint = Paint { on: output.color };
            let text = |said: &Said| match said {
                Said::Pod(pod) => pod.text(),
                Said::Object(answer) => answer.text(paint),
            };
            let texts: Vec<_> = answers.iter().map(text).collect();
            output.text(&texts.join("\n"))
        }
    }
}
