//! The commands that are suggested for the words of other programs, such as `kubegc prune`. By its letters alone, clap would
//! suggest `run` for it.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

use crate::cli::Cli;

/// Adds the command that is meant to the error for an unknown command. `words` are those of the command line.
pub(in crate::cli) fn with_meant(mut error: Error, root: &Command, words: impl IntoIterator<Item = OsString>) -> Error {
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(unknown))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand).cloned())
    {
        let meant = meant(&unknown, parent(root, &unknown, words));
        if !meant.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(meant));
        }
    }
    error
}

/// Returns the command whose subcommand is unknown.
fn parent<'a>(root: &'a Command, unknown: &str, words: impl IntoIterator<Item = OsString>) -> &'a Command {
    let words = words.into_iter().take_while(|word| word != unknown);
    words.fold(root, |command, word| command.find_subcommand(word).unwrap_or(command))
}

fn meant(unknown: &str, parent: &Command) -> Vec<String> {
    let known = Cli::facts().into_iter().filter(|facts| facts.words.contains(&unknown)).map(|facts| facts.name);
    let mut here: Vec<_> = known.filter(|name| parent.find_subcommand(name).is_some()).map(str::to_owned).collect();
    here.sort();
    here
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn words_of_other_programs_suggest_the_equivalent_command() {
        for (line, suggested) in [
            ("prune", "'collect'"),
            ("gc", "'collect'"),
            ("clean", "'collect'"),
            ("cleanup", "'collect'"),
            ("rm", "'collect'"),
            ("delete", "'collect'"),
            ("-o json ls", "'images', 'plan'"),
            ("list", "'images', 'plan'"),
            ("describe", "'why'"),
            ("controller prune", "'collect'"),
            ("controller ls", "'plan'"),
            ("config ls", ""),
            ("histroy", "'history'"),
        ] {
            let words: Vec<_> = ["kubegc"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
            let error = Cli::command().try_get_matches_from(&words).unwrap_err();
            let text = with_meant(error, &Cli::command(), words).to_string();
            let tip = text.lines().find(|line| line.contains("tip: ")).unwrap_or_default();
            assert_eq!(
                tip.split_once(": ").map_or("", |(_, rest)| rest.split_once(": ").map_or("", |two| two.1)),
                suggested,
                "{line}"
            );
        }
    }
}
