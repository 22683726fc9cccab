//! The end of the long help of each command: its examples, where the settings are, and its exit status.

use clap::{Args as _, Command};

use crate::cli::Cli;
use crate::cli::args::global::Global;
use crate::cli::cli_error::STATUSES;
use crate::cli::verb::VerbFacts;

const SETTINGS: &str = "Settings:\n  Each can be a flag. `kubegc config explain` lists them, and explains one.\n\n";

/// Adds the examples and the exit status to the long help of a command and of all its subcommands. `path` has the names of
/// the commands above it.
pub(in crate::cli) fn with_help(command: Command, path: &str) -> Command {
    let path = format!("{path}{} ", command.get_name());
    let command = command.mut_subcommands(|command| with_help(command, &path));
    if path == "kubegc " {
        return command;
    }
    let command = if path.starts_with("kubegc controller ") { of_cluster(command) } else { command };
    let is_below = |facts: &&VerbFacts| format!("kubegc {} ", facts.name).starts_with(&path);
    let below: Vec<_> = Cli::facts().into_iter().filter(is_below).collect();
    let examples =
        if command.has_subcommands() { String::new() } else { below.iter().copied().map(examples).collect() };
    command.after_long_help(examples + SETTINGS + &exit_status(&below))
}

fn of_cluster(command: Command) -> Command {
    let global = Global::augment_args(Command::new("kubegc"));
    let of_node = |id: &str| id == "set" || id.starts_with("kubelet_config");
    let flags = global.get_arguments().filter(|flag| of_node(flag.get_id().as_str()));
    command.args(flags.cloned()).mut_args(|flag| match flag.get_id().as_str() {
        "namespace" => flag.help("Include only objects of this namespace"),
        "set" => flag.help("Set a configuration key, as `log.level=debug` (repeatable)"),
        id if of_node(id) => flag.hide(true),
        _ => flag,
    })
}

fn examples(facts: &VerbFacts) -> String {
    let lines: Vec<_> = facts.examples.iter().map(|(what, line)| format!("  # {what}\n  {line}\n")).collect();
    if lines.is_empty() { String::new() } else { format!("Examples:\n{}\n", lines.concat()) }
}

pub(in crate::cli) fn exit_statuses() -> String {
    let all: Vec<_> = STATUSES.iter().map(|(status, meaning)| format!("{status} {meaning}")).collect();
    format!("Exit status: {}.", all.join("; "))
}

/// Returns the exit statuses of these commands: those of a group are those of its subcommands.
fn exit_status(of: &[&VerbFacts]) -> String {
    let lines = STATUSES.iter().filter(|(status, _)| of.iter().any(|facts| facts.statuses.contains(status)));
    let lines: Vec<_> = lines.map(|(status, meaning)| format!("  {status:<4} {meaning}")).collect();
    format!("Exit status:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;

    fn leaves(command: &Command, path: &str) -> Vec<String> {
        let path = format!("{path}{} ", command.get_name());
        let below = command.get_subcommands().filter(|command| !command.is_hide_set());
        let below: Vec<_> = below.flat_map(|command| leaves(command, &path)).collect();
        // A command with subcommands that does something without one too.
        let is_whole = below.is_empty() || !command.is_subcommand_required_set();
        below.into_iter().chain(is_whole.then_some(path)).collect()
    }

    #[test]
    fn the_readme_has_the_exit_statuses_of_the_help() {
        let readme = include_str!("../../../README.md").replace('`', "").replace('\n', " ");
        assert!(readme.contains(&exit_statuses()), "{}", exit_statuses());
    }

    #[test]
    fn a_group_has_the_exit_statuses_of_its_subcommands() {
        let command = with_help(Cli::command(), "");
        let help = |name: &str| command.find_subcommand(name).unwrap().get_after_long_help().unwrap().to_string();
        let has = |help: &str| {
            ["0", "1", "2", "3", "4", "5", "130"].map(|status| help.contains(&format!("\n  {status:<4} ")))
        };
        assert_eq!(has(&help("controller")), [true, true, true, true, true, false, true]);
        assert_eq!(has(&help("config")), [true, true, true, false, false, false, false]);
        assert!(!help("controller").contains("Examples:"));
    }

    #[test]
    fn a_command_of_a_cluster_shows_no_settings_of_a_node() {
        let help = |path: &[&str]| {
            let mut command = with_help(Cli::command(), "");
            command.build();
            let command = path.iter().fold(&mut command, |command, name| command.find_subcommand_mut(name).unwrap());
            command.render_long_help().to_string()
        };
        for verb in ["plan", "collect", "run"] {
            let help = help(&["controller", verb]).to_lowercase();
            let of_node = ["--kubelet", "images"].map(|word| help.matches(word).count());
            assert_eq!(of_node, [0, 0], "{help}");
        }
        assert!(help(&["plan"]).contains("--kubelet-config"));
    }

    /// `demo` and `man` are complete as they are.
    #[test]
    fn every_command_has_examples_and_clap_accepts_them() {
        let names: Vec<_> = Cli::facts().iter().map(|facts| format!("kubegc {} ", facts.name)).collect();
        let leaves: BTreeSet<_> = leaves(&Cli::command(), "").into_iter().collect();
        assert_eq!(leaves, names.into_iter().collect());
        for facts in Cli::facts().into_iter().filter(|facts| !["demo", "man"].contains(&facts.name)) {
            assert!(!facts.examples.is_empty(), "{}", facts.name);
            for (what, line) in facts.examples {
                let named = format!("{line} ").replace(')', " ");
                assert!(named.contains(&format!("kubegc {} ", facts.name)), "{line} in the help of {}", facts.name);
                let words = line.split(['>', '<']).next().unwrap().split_whitespace();
                if line.starts_with("kubegc") {
                    assert!(Cli::command().try_get_matches_from(words).is_ok(), "{line}");
                }
                assert!(!what.ends_with('.'), "{what}");
            }
        }
    }
}
