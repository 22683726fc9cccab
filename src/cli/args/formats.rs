//! The output formats of each command. A format that the command does not have is an error, because a script that
//! requested names and got a table would go on with wrong words.

use clap::ValueEnum as _;

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::format;
use crate::cli::render::output::Format;
use crate::cli::verb::{Verb, VerbFacts};

/// The formats of a list of objects.
pub(in crate::cli) const LIST: &[Format] = &[Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Name];
/// The formats of a plan of a cluster.
pub(in crate::cli) const CLUSTER_PLAN: &[Format] =
    &[Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Name, Format::Csv];
/// The formats of the history.
pub(in crate::cli) const HISTORY: &[Format] =
    &[Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Name, Format::Crictl];
/// The formats of a list of what has no name.
pub(in crate::cli) const ROWS: &[Format] = &[Format::Table, Format::Wide, Format::Json, Format::Yaml];
/// The formats of a text about one thing.
pub(in crate::cli) const TEXT: &[Format] = &[Format::Table, Format::Json, Format::Yaml];
/// The formats of a document for programs.
pub(in crate::cli) const DOCUMENT: &[Format] = &[Format::Json, Format::Yaml];

/// Returns an error if the command does not have the format.
pub(in crate::cli) fn check(verb: &dyn Verb, facts: &[VerbFacts], wanted: Option<Format>) -> Result<(), CliError> {
    let (command, known) =
        verb.formats().or_else(|| facts.first().map(|facts| (facts.name, facts.formats))).unwrap_or_default();
    match wanted {
        Some(wanted) if !known.contains(&wanted) => Err(refused(&format!("kubegc {command}"), known, wanted)),
        _ => Ok(()),
    }
}

fn refused(command: &str, known: &[Format], wanted: Format) -> CliError {
    let name =
        |format: &Format| format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let error = CliError::message(ErrorKind::Usage, format!("`{command}` has no output format {:?}", name(&wanted)));
    match known {
        [] => error.hint("omit -o"),
        known => error.hint(format!("-o accepts {} here", format::list(&known.iter().map(name).collect::<Vec<_>>()))),
    }
}
