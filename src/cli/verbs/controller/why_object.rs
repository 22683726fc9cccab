//! `kubegc controller why`.

use std::fmt::Write as _;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::cluster_tables as render;
use crate::cli::args::kubectl_args::NamespaceArgs;
use crate::cli::args::values;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::render::output::{Document, Output};
use crate::cli::render::{Paint, Screen, format};
use crate::cli::verb::{LOOKS, Start, TEXT, Verb, VerbFacts};
use crate::model::Identity;
use crate::owners::{
    ClusterAction, ClusterExplanation, ClusterSnapshot, DependentNode, OwnerFinding, OwnerNode, Propagation, explain,
    find_objects, predict_deletion,
};

/// Explain why an object is kept or deleted: its owners, its dependents
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kind and name, as deployment/web or `configmap settings`
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    object: Vec<String>,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Show what would follow from its deletion with this policy
    #[arg(long, value_parser = values::propagations(), value_name = "POLICY")]
    if_deleted: Option<Propagation>,
    /// Explain a snapshot in a file (- for standard input)
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub(in crate::cli) struct Answer {
    #[serde(flatten)]
    explanation: ClusterExplanation,
    /// What would follow from the deletion of the object, with `--if-deleted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    if_deleted: Option<Vec<ClusterAction>>,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "controller why",
            examples: &[
                ("Explain an object", "kubegc controller why deployment/web -n shop"),
                (
                    "Show what would follow from its deletion",
                    "kubegc controller why deployment/web --if-deleted foreground",
                ),
            ],
            formats: TEXT,
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = start.load()?;
        let source = Source::new(&loaded, start);
        let object = self.object.join("/");
        let Some((kind, name)) = object.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
        else {
            let message = format!("cannot explain {object:?}: not of the form KIND/NAME");
            return Err(CliError::message(ErrorKind::Usage, message).hint("write for example deployment/web"));
        };
        let namespace = self.namespace.get();
        // What is around an object of a namespace is in it. Only its owners can be outside, and they are read by themselves.
        let mut snapshot = source.snapshot(self.snapshot.as_ref(), namespace)?;
        let mut found = find_objects(&snapshot, kind, name, namespace);
        if found.is_empty() && namespace.is_some() && self.snapshot.is_none() {
            snapshot = source.snapshot(None, None)?;
            found = find_objects(&snapshot, kind, name, namespace);
        }
        if found.is_empty() {
            return Err(not_found(self, &snapshot));
        }
        // The objects are few, so their kinds are whole.
        Screen { wide: true, ..Screen::current() }.set();
        for object in &found {
            if let Some(answer) = answer(&snapshot, object, self.if_deleted) {
                let paint = output.paint;
                output.result(&Document::of(&answer), || text(&answer, paint))?;
            }
        }
        Ok(())
    }
}

fn answer(snapshot: &ClusterSnapshot, object: &Identity, policy: Option<Propagation>) -> Option<Answer> {
    let explanation = explain(snapshot, object)?;
    // An object that is deleted anyway has no consequences of its own.
    let predict = |policy| predict_deletion(snapshot, object, policy);
    let if_deleted = policy.map(|policy| predict(policy).unwrap_or_default());
    Some(Answer { explanation, if_deleted })
}

fn not_found(args: &Args, snapshot: &ClusterSnapshot) -> CliError {
    let place = args.namespace.get().map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
    let error = CliError::message(ErrorKind::Usage, format!("no object matches {:?}{place}", args.object.join("/")));
    let missing = snapshot.resources.iter().filter(|listed| listed.objects.cause().is_some()).count();
    match missing {
        0 => error,
        missing => error.hint(format!("{missing} resources cannot be listed; `kubegc controller plan` names them")),
    }
}

/// Formats an answer as a tree: the owners above, the object, the dependents below.
fn text(answer: &Answer, paint: Paint) -> String {
    let found = &answer.explanation;
    let decision = format!("{}, {}", found.decision.replace('_', " "), render::reason_text(&found.reason));
    let mut text = format!("{}: {decision}\n", paint.bold(&format::printable(&found.object.to_string())));
    if let Some(deletion) = &found.deletion {
        let lines: Vec<_> = render::holds(deletion).iter().map(|line| format::printable(line)).collect();
        let _ = writeln!(text, "Being deleted: {}", lines.join("\n  "));
    }
    if let [_, ..] = &*found.held_by {
        let _ = writeln!(text, "Then held by: {}", format::printable(&render::counted("finalizer", &found.held_by)));
    }
    if let Some(content) = found.content.filter(|_| found.decision == "delete") {
        let _ = writeln!(text, "With its content: {}", format::count(content, "object"));
    }
    for finding in &found.findings {
        let (what, detail) = (render::finding_text(finding.kind), render::detail(finding));
        let _ = writeln!(text, "Finding: {}", format::printable([what, &detail].join(": ").trim_end_matches(": ")));
    }
    if !found.owners.is_empty() {
        text += "Owners:\n";
        owner_tree(&mut text, &found.owners, "");
    }
    if !found.dependents.is_empty() {
        text += "Dependents:\n";
        dependent_tree(&mut text, &found.dependents, &found.object, "");
    }
    if let Some(actions_then) = &answer.if_deleted {
        text += &consequences(actions_then, found.content);
    }
    text
}

/// Formats what would follow from the deletion of an object with this content.
fn consequences(actions: &[ClusterAction], content: Option<usize>) -> String {
    let content = content.filter(|count| *count > 0).map(|count| {
        let objects = format::count(count, "object");
        format!("If it were deleted: the API server would delete its content with it, {objects} now\n")
    });
    let rest = match (actions, &content) {
        ([], None) => "If it were deleted: nothing else would change\n".to_owned(),
        ([], Some(_)) => String::new(),
        _ => format!("If it were deleted (predicted):\n{}", render::actions(actions, |_| Default::default())),
    };
    content.unwrap_or_default() + &rest
}

fn owner_tree(text: &mut String, owners: &[OwnerNode], indent: &str) {
    branches(
        text,
        owners,
        indent,
        |node| {
            let OwnerFinding { reference, evidence, .. } = &node.owner;
            format!("{}/{}: {}, {evidence}", reference.kind, reference.name, render::owner_state(&node.owner))
        },
        |text, node, indent| owner_tree(text, &node.owners, indent),
    );
}

fn dependent_tree(text: &mut String, dependents: &[DependentNode], owner: &Identity, indent: &str) {
    branches(
        text,
        dependents,
        indent,
        |node| {
            let place = if node.object.namespace == owner.namespace {
                format!("{}/{}", node.object.kind, node.object.name)
            } else {
                node.object.to_string()
            };
            if node.blocking { format!("{place} (blocks its deletion)") } else { place }
        },
        |text, node, indent| dependent_tree(text, &node.dependents, &node.object, indent),
    );
}

/// Writes one line for each node, with the lines of a tree, and below it those of its own nodes.
fn branches<N>(
    text: &mut String,
    nodes: &[N],
    indent: &str,
    line: impl Fn(&N) -> String,
    mut below: impl FnMut(&mut String, &N, &str),
) {
    for (at, node) in nodes.iter().enumerate() {
        let is_last = at + 1 == nodes.len();
        let (branch, rest) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let _ = writeln!(text, "{indent}{branch}{}", format::printable(&line(node)));
        below(text, node, &format!("{indent}{rest}"));
    }
}
