//! The end of the long help of each command: its examples, and its exit status.

use clap::Command;

use super::examples;

/// The meaning of each exit status.
const MEANINGS: [(u8, &str); 7] = [
    (0, "done"),
    (1, "failed or refused in part, data unavailable, or another error"),
    (2, "usage or configuration"),
    (3, "runtime or API server not reachable"),
    (4, "a --fail-on condition was met"),
    (5, "another agent holds the lock of the node"),
    (130, "interrupted (143 by SIGTERM)"),
];

/// Adds the examples and the exit status to the long help of a command and of all its subcommands.
pub(super) fn documented(command: Command) -> Command {
    let path = command.get_name().to_owned();
    command.mut_subcommands(|command| of_path(command, &path))
}

fn of_path(command: Command, path: &str) -> Command {
    let path = format!("{path} {}", command.get_name());
    let examples = examples::text(path.strip_prefix("kubegc ").unwrap_or(&path));
    let help = examples + &help(statuses(&path));
    command.mut_subcommands(|command| of_path(command, &path)).after_long_help(help)
}

/// Returns the exit status that a command can have.
fn statuses(path: &str) -> &'static [u8] {
    match path {
        "kubegc plan" | "kubegc why" | "kubegc snapshot" | "kubegc status" => &[0, 1, 2, 3, 130],
        "kubegc collect" => &[0, 1, 2, 3, 5, 130],
        "kubegc run" => &[0, 1, 2, 5, 130],
        "kubegc controller plan" => &[0, 1, 2, 3, 4, 130],
        path if path.starts_with("kubegc controller") => &[0, 1, 2, 3, 130],
        _ => &[0, 1, 2],
    }
}

fn help(statuses: &[u8]) -> String {
    let lines = MEANINGS.iter().filter(|(status, _)| statuses.contains(status));
    let lines: Vec<_> = lines.map(|(status, meaning)| format!("  {status:<4} {meaning}")).collect();
    format!("Exit status:\n{}", lines.join("\n"))
}
