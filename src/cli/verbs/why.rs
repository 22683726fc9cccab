//! `kubegc why`.

mod facts;
mod removed;

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use clap_complete::ArgValueCompleter;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use super::completions;
use crate::cli::args::kubectl_args::NamespaceArgs;
use crate::cli::args::values;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::documents::Snapshots;
use crate::cli::input::lookup::{Finding, Found, Search, ambiguous, nothing, with_kind};
use crate::cli::input::session::{block_on, plan_now};
use crate::cli::render::output::{Format, Output};
use crate::cli::render::pod_text::{self as pods, PodAnswer};
use crate::cli::render::{Paint, format};
use crate::cli::verb::{LOOKS, Start, TEXT, Verb, VerbFacts};
use crate::config::{Loaded, MAX_SHOWN};
use crate::model::{Seen, Snapshot};
use crate::observe::Part;
use crate::plan::{Decision, Kind, Plan, PodKnowledge, RemoveReason, Scope};
use facts::{Facts, seconds_to_go};

/// Explain why an object is kept or removed
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id, image, pod, container or log path, whole or in part
    ///
    /// kubegc accepts each form that a table shows: `pod/NAME` or `pod NAME`, `NAMESPACE/POD/CONTAINER`, an image without its registry,
    /// the beginning of an id, a shortened name. If several objects match, it lists them.
    #[arg(required = true, num_args = 1..=2, add = ArgValueCompleter::new(completions::objects))]
    what: Vec<String>,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Explain a snapshot instead of this node (- for standard input)
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
}

/// The answer for a pod or an object.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    Pod(PodAnswer),
    Object(Box<ObjectAnswer<'a>>),
}

#[derive(Debug, Serialize)]
struct ObjectAnswer<'a> {
    kind: Kind,
    id: String,
    #[serde(skip)]
    title: String,
    #[serde(serialize_with = "word")]
    decision: Decision<'a>,
    /// The reason and its values, as in plans.
    reason: Json,
    /// The rule as a clause about the object.
    rule: String,
    setting: Option<Setting>,
    change: &'static str,
    /// Seconds until the decision changes by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_to_go: Option<i64>,
    /// The order in which unused images are removed, where it decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Setting>,
    /// The score of an unused image by `images.order`.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(flatten)]
    facts: Facts,
    /// The pod sources, where the object belongs to a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<Seen<PodKnowledge>>,
}

#[derive(Debug, Serialize)]
struct Setting {
    key: &'static str,
    value: Json,
    origin: String,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "why",
            examples: &[
                ("Explain an image", "kubegc why registry.example.com/web:1.0"),
                ("Explain all objects of a pod", "kubegc why pod web-0 -n shop"),
                ("Explain a container by the beginning of its id", "kubegc why 509b9c7"),
            ],
            formats: TEXT,
            words: &["describe", "explain", "inspect"],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = &start.load()?;
        let policy = &loaded.settings.policy;
        let what = self.word()?;
        let (snapshot, plan) = match &self.snapshot {
            Some(file) => Snapshots::open(file)?.planned(policy)?,
            None => block_on(self.planned(&what, loaded))?,
        };
        let search = Search { snapshot: &snapshot, namespace: &self.namespace };
        let word = what.strip_prefix("pod/").unwrap_or(&what);
        let pods: Vec<_> = pods::answers(search.pods(), word, &plan).into_iter().map(Answer::Pod).collect();
        let found = match search.find(&policy.logs, &what) {
            Finding::Objects(found) => found,
            Finding::Ambiguous(candidates) => return Err(ambiguous(&what, &candidates)),
            Finding::Nothing(similar) if pods.is_empty() => {
                let removed =
                    if self.snapshot.is_none() { removed::newest(&what, &self.namespace, loaded)? } else { None };
                return Err(removed.map_or_else(|| nothing(&what, &similar), |entry| removed::error(&what, &entry)));
            }
            Finding::Nothing(_) => Vec::new(),
        };
        let namesakes = search.namesakes(&what, &found);
        let objects = found
            .into_iter()
            .filter_map(|found| answer(found, &snapshot, &plan, loaded))
            .map(Box::new)
            .map(Answer::Object);
        let answers: Vec<_> = pods.into_iter().chain(objects).collect();
        print(&answers, &plan, output)?;
        match output.format {
            None | Some(Format::Table) if namesakes > 0 => output.page(&others(&what, namesakes)),
            _ => Ok(()),
        }
    }
}

/// Names the containers that an image or a pod of the same name hides.
fn others(what: &str, namesakes: usize) -> String {
    let (count, verb) = (format::count(namesakes, "container"), if namesakes == 1 { "has" } else { "have" });
    format!("\n{count} {verb} this name too: `kubegc why container/{}`\n", format::printable(what))
}

/// Returns the decision of the plan about an object.
fn answer<'a>(found: Found, snapshot: &Snapshot, plan: &'a Plan, loaded: &Loaded) -> Option<ObjectAnswer<'a>> {
    let decision = plan.of(found.kind, &found.id)?;
    let of_removal = |reason: &RemoveReason| (serde_json::to_value(reason), reason.is_for_space(), None);
    let (reason, is_for_space, seconds_to_go) = match decision {
        Decision::Remove(action) | Decision::IfNeeded(action) => of_removal(&action.reason),
        Decision::Keep(kept) => (serde_json::to_value(&kept.reason), false, seconds_to_go(kept, snapshot)),
    };
    let explained = decision.explain();
    let score = plan.images.scores.get(&found.id.as_str().into()).copied();
    Some(ObjectAnswer {
        decision,
        reason: reason.unwrap_or_default(),
        rule: explained.rule.into_owned(),
        setting: explained.setting.and_then(|name| setting(found.kind, name, loaded)),
        change: explained.change,
        seconds_to_go,
        order: (is_for_space || score.is_some()).then(|| setting(found.kind, "images.order", loaded)).flatten(),
        score,
        facts: Facts::of(found.object, snapshot),
        pods: decision.pod().map(|_| plan.pods.clone()),
        kind: found.kind,
        id: found.id,
        title: found.title,
    })
}

fn word<S: Serializer>(decision: &Decision<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(decision.as_str())
}

// === impl Setting ===

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, origin } = self;
        let value = value.to_string();
        if value.len() > MAX_SHOWN { write!(f, "{key} ({origin})") } else { write!(f, "{key} = {value} ({origin})") }
    }
}

// === impl Args ===

impl Args {
    /// Observes the node and plans a pass. The store of the runtime shows which images other clients use. A plan that removes no
    /// image does not read it, but the answer about an image needs it.
    async fn planned(&self, what: &str, loaded: &Loaded) -> Result<(Snapshot, Plan), CliError> {
        let policy = &loaded.settings.policy;
        let (snapshot, plan) = plan_now(loaded, Scope::All, [Part::Ends]).await?;
        let search = Search { snapshot: &snapshot, namespace: &self.namespace };
        let is_about_image = match search.find(&policy.logs, what) {
            Finding::Objects(found) => found.iter().any(|found| found.kind == Kind::Image),
            _ => false,
        };
        if is_about_image && snapshot.store.is_not_read() && policy.guards.keep_images_of_other_clients {
            return plan_now(loaded, Scope::All, [Part::Ends, Part::Store]).await;
        }
        Ok((snapshot, plan))
    }

    /// Returns the word that names the objects: the only one, or `KIND/NAME`.
    fn word(&self) -> Result<String, CliError> {
        match with_kind(&self.what).as_slice() {
            [word] => Ok(word.clone()),
            words => {
                let message = format!("no kind {:?}", words.first().map_or("", String::as_str));
                let kinds = Kind::ALL.map(values::word);
                Err(CliError::message(ErrorKind::Usage, message).hint(format!("kinds are pod, {}", kinds.join(", "))))
            }
        }
    }
}

// === impl Answer ===

impl Answer<'_> {
    /// Returns whether the answer depends on the pod sources.
    fn is_of_pod(&self) -> bool {
        match self {
            Self::Pod(_) => true,
            Self::Object(answer) => answer.pods.is_some(),
        }
    }
}

// === impl ObjectAnswer ===

impl ObjectAnswer<'_> {
    /// Formats the object and its facts.
    fn heading(&self, now: Timestamp) -> String {
        let lines = self.facts.lines(self.kind, now).into_iter().map(|line| format!("  {line}"));
        let lines = std::iter::once(self.title.clone()).chain(lines);
        lines.map(|line| format::printable(&line) + "\n").collect()
    }

    fn explanation(&self, paint: Paint) -> String {
        let decision = match self.decision {
            Decision::Remove(_) => paint.yellow("remove"),
            Decision::IfNeeded(_) => "keep, unless the removals reclaim less space than estimated".to_owned(),
            Decision::Keep(_) => paint.green("keep"),
        };
        let mut text = format!("  {decision}: {}\n", format::printable(&self.rule));
        if let Some(setting) = &self.setting {
            let _ = writeln!(text, "  setting: {setting}");
        }
        if let Some(order) = &self.order {
            let score = self.score.map(|score| format!(", score {score}")).unwrap_or_default();
            let _ = writeln!(text, "  order: {order}{score}");
        }
        let to_go = self.seconds_to_go.map(|seconds| format!(" ({} to go)", format::age(seconds))).unwrap_or_default();
        let _ = writeln!(text, "  changes when: {}{to_go}", self.change);
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

fn print(answers: &[Answer<'_>], plan: &Plan, output: &mut Output) -> Result<(), CliError> {
    let paint = output.paint;
    output.result(&answers, || text(answers, plan, paint))
}

fn text(answers: &[Answer<'_>], plan: &Plan, paint: Paint) -> String {
    let mut texts = Vec::new();
    let mut answers_left = answers.iter().peekable();
    let mut headings = String::new();
    while let Some(answer) = answers_left.next() {
        match answer {
            Answer::Pod(pod) => texts.push(pod.text()),
            Answer::Object(answer) => {
                headings += &answer.heading(plan.taken_at);
                let explanation = answer.explanation(paint);
                let is_same =
                    |next: &&Answer| matches!(next, Answer::Object(next) if next.explanation(paint) == explanation);
                // Objects with the same decision for the same reason share its text.
                if answers_left.peek().is_none_or(|next| !is_same(next)) {
                    texts.push(std::mem::take(&mut headings) + &explanation);
                }
            }
        }
    }
    if answers.iter().any(Answer::is_of_pod) {
        texts.push(format!("pods: {}\n", format::printable(&pods::sources_of(plan))));
    }
    texts.join("\n")
}
