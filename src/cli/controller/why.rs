//! `kubegc controller why`.

use std::path::PathBuf;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;

use super::render;
use super::source::Source;
use crate::cli::namespace::NamespaceArgs;
use crate::cli::render::Paint;
use crate::cli::{CliError, ErrorKind, Format, Output};
use crate::owners::{
    ClusterAction, ClusterExplanation, ClusterSnapshot, Identity, Propagation, explain, find_objects, predict_deletion,
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
    #[arg(long, value_enum, value_name = "POLICY")]
    if_deleted: Option<PolicyArg>,
    /// Explain a snapshot in a file (- for standard input)
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
}

/// A propagation policy.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PolicyArg {
    /// Delete the dependents afterward
    Background,
    /// Delete the dependents first
    Foreground,
    /// Keep the dependents, without the reference
    Orphan,
}

/// The answer about one object.
#[derive(Debug, JsonSchema, Serialize)]
pub(in crate::cli) struct Answer {
    #[serde(flatten)]
    pub(super) explanation: ClusterExplanation,
    /// What would follow from the deletion of the object, with `--if-deleted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) if_deleted: Option<Vec<ClusterAction>>,
}

/// Explains each object of that name.
pub(super) fn run(args: &Args, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let object = args.object.join("/");
    let Some((kind, name)) = object.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty()) else {
        let message = format!("cannot explain {object:?}: not of the form KIND/NAME");
        return Err(CliError::message(ErrorKind::Usage, message).hint("write for example deployment/web"));
    };
    let snapshot = source.snapshot(args.snapshot.as_ref())?;
    let found = find_objects(&snapshot, kind, name, args.namespace.get());
    if found.is_empty() {
        return Err(not_found(args, &snapshot));
    }
    for object in &found {
        if let Some(answer) = answer(&snapshot, object, args.if_deleted) {
            print(&answer, output)?;
        }
    }
    Ok(())
}

fn answer(snapshot: &ClusterSnapshot, object: &Identity, policy: Option<PolicyArg>) -> Option<Answer> {
    let explanation = explain(snapshot, object)?;
    // An object that is deleted anyway has no consequences of its own.
    let predict = |policy: PolicyArg| predict_deletion(snapshot, object, policy.into());
    let if_deleted = policy.map(|policy| predict(policy).unwrap_or_default());
    Some(Answer { explanation, if_deleted })
}

fn print(answer: &Answer, output: &mut Output) -> Result<(), CliError> {
    match output.format.unwrap_or(Format::Table) {
        Format::Json => output.json(answer),
        Format::Yaml => output.yaml(answer),
        Format::Table | Format::Wide | Format::Name | Format::Html => {
            output.text(&render::why(answer, Paint { on: output.color }))
        }
    }
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

// === impl PolicyArg ===

impl From<PolicyArg> for Propagation {
    fn from(policy: PolicyArg) -> Self {
        match policy {
            PolicyArg::Background => Self::Background,
            PolicyArg::Foreground => Self::Foreground,
            PolicyArg::Orphan => Self::Orphan,
        }
    }
}
