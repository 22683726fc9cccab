//! The output formats of each command. A format that the command does not have is an error, because a script that
//! requested names and got a table would go on with wrong words.

use clap::ValueEnum as _;

use crate::cli::Verb;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::format;
use crate::cli::render::output::Format;

/// The formats of a list of objects.
pub(in crate::cli) const LIST: &[Format] = &[Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Name];
/// The formats of a list of what has no name.
pub(in crate::cli) const ROWS: &[Format] = &[Format::Table, Format::Wide, Format::Json, Format::Yaml];
/// The formats of a text about one thing.
pub(in crate::cli) const TEXT: &[Format] = &[Format::Table, Format::Json, Format::Yaml];
/// The formats of a document for programs.
pub(in crate::cli) const DOCUMENT: &[Format] = &[Format::Json, Format::Yaml];

/// Returns an error if the command does not have the format.
pub(in crate::cli) fn check(verb: &Verb, wanted: Option<Format>) -> Result<(), CliError> {
    let (command, known) = of(verb);
    match wanted {
        Some(wanted) if !known.contains(&wanted) => Err(refused(&command, known, wanted)),
        _ => Ok(()),
    }
}

/// Returns the name of the command with the flags that matter, and its formats.
fn of(verb: &Verb) -> (String, &'static [Format]) {
    let (command, formats): (&str, _) = match verb {
        Verb::Plan(_) => ("plan", LIST),
        Verb::Collect(_) => ("collect", LIST),
        Verb::Images(_) => ("images", LIST),
        Verb::Disk(_) => ("disk", ROWS),
        Verb::History(args) => args.formats(),
        Verb::Why(_) => ("why", TEXT),
        Verb::Status(_) => ("status", TEXT),
        Verb::Version(_) => ("version", TEXT),
        Verb::Snapshot(_) => ("snapshot", DOCUMENT),
        Verb::Report(_) => ("report", &[Format::Html, Format::Json]),
        Verb::Config(args) => args.formats(),
        Verb::Controller(args) => args.formats(),
        Verb::Run(_) => ("run", &[]),
        #[cfg(feature = "sim")]
        Verb::Demo(_) => ("demo", &[]),
        Verb::Completions(_) => ("completions", &[]),
        Verb::Man(_) => ("man", &[]),
    };
    (format!("kubegc {command}"), formats)
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
