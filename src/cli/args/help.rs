//! The end of the long help of each command: its examples, where the settings are, and its exit status.

use clap::Command;

use crate::cli::cli_error::STATUSES;

/// Examples: a comment, and a command line. Each is in the help of the command that the line names.
const EXAMPLES: [(&str, &str); 48] = [
    ("Show what a pass would remove now, and why", "kubegc plan"),
    ("List each kept object too", "kubegc plan -o wide"),
    ("Show only the containers of one namespace", "kubegc plan --kind container -n shop"),
    ("Save a plan, to carry it out later", "kubegc plan -o json > plan.json"),
    ("Make one pass", "kubegc collect"),
    ("Make all checks, but remove nothing", "kubegc collect --dry-run"),
    ("Remove one unused image", "kubegc collect image/registry.example.com/web:1.0"),
    ("Carry out a saved plan", "kubegc collect --plan plan.json"),
    ("Free a full disk", "kubegc collect --pressure"),
    ("Run the agent with the settings of a file", "kubegc run --config /etc/kubegc/kubegc.toml"),
    ("Log what it would remove, without removing it", "kubegc run --mode observe"),
    ("Explain an image", "kubegc why registry.example.com/web:1.0"),
    ("Explain all objects of a pod", "kubegc why pod web-0 -n shop"),
    ("Explain a container by the beginning of its id", "kubegc why 509b9c7"),
    ("Save the state of this node, for `plan --snapshot` elsewhere", "kubegc snapshot > node.json"),
    ("List the images by size", "kubegc images"),
    ("List those that were used least recently first", "kubegc images --sort-by last-used"),
    ("Print only ids", "kubegc images -q"),
    ("Show what fills the image file system", "kubegc disk"),
    ("Show every image, layer and blob of it", "kubegc disk --top 0 -o wide"),
    ("Remove the unused images that a scanner lists", "kubegc collect images --remove-list vulnerable.txt"),
    ("Show the last removals", "kubegc history"),
    ("Show what was removed of a namespace in a day", "kubegc history --since 24h --namespace shop"),
    ("Sum removals by day and reason", "kubegc history --sums"),
    ("Show the runs", "kubegc history --runs"),
    ("Show the run with number 12 and its removals", "kubegc history 12"),
    ("Write the page to a file", "kubegc report node.html"),
    ("Show the agent and its last passes", "kubegc status"),
    ("Show them every 5 seconds", "kubegc status --watch=5s"),
    ("Check a file before the agent reads it", "kubegc config check kubegc.toml"),
    ("Show each setting with its origin", "kubegc config show -o table"),
    ("Show what each rule decides now", "kubegc config rules"),
    ("List the settings with their flags", "kubegc config explain"),
    ("Explain one setting", "kubegc config explain images.min_age"),
    ("Begin a configuration file", "kubegc config default > kubegc.toml"),
    ("Print the schema of a plan", "kubegc config schema plan"),
    ("Show what would be deleted in a cluster", "kubegc controller plan"),
    ("Fail if all owners of an object are absent", "kubegc controller plan --fail-on dangling"),
    ("Show the pods that no kubelet finishes", "kubegc controller plan --pods-only"),
    ("Explain an object", "kubegc controller why deployment/web -n shop"),
    ("Show what would follow from its deletion", "kubegc controller why deployment/web --if-deleted foreground"),
    ("Make all checks, but change nothing", "kubegc controller collect --dry-run"),
    ("Delete at most 100 objects", "kubegc controller collect --max 100"),
    ("Run the controller", "kubegc controller run --kubeconfig admin.conf"),
    ("Save the metadata of a cluster", "kubegc controller snapshot > cluster.json"),
    ("Show which process collects", "kubegc controller status"),
    ("Complete commands in this shell", "source <(kubegc completions bash)"),
    ("Print the versions for a program", "kubegc version -o json"),
];

/// Where the flags are that the help of a command does not list.
const SETTINGS: &str = "Settings:\n  Each can be a flag. `kubegc config explain` lists them, and explains one.\n\n";

/// Adds the examples and the exit status to the long help of a command and of all its subcommands. `path` has the names of
/// the commands above it.
pub(in crate::cli) fn with_help(command: Command, path: &str) -> Command {
    let path = format!("{path}{} ", command.get_name());
    let command = command.mut_subcommands(|command| with_help(command, &path));
    if path == "kubegc " {
        return command;
    }
    let examples = if command.has_subcommands() { String::new() } else { examples(&path) };
    command.after_long_help(examples + SETTINGS + &exit_status(path.trim_end()))
}

fn examples(path: &str) -> String {
    let of = EXAMPLES.iter().filter(|(_, line)| format!("{line} ").replace(')', " ").contains(path));
    let lines: Vec<_> = of.map(|(comment, line)| format!("  # {comment}\n  {line}\n")).collect();
    if lines.is_empty() { String::new() } else { format!("Examples:\n{}\n", lines.concat()) }
}

/// Returns all exit statuses with their meanings, in one line.
pub(in crate::cli) fn exit_statuses() -> String {
    let all: Vec<_> = STATUSES.iter().map(|(status, meaning)| format!("{status} {meaning}")).collect();
    format!("Exit status: {}.", all.join("; "))
}

fn exit_status(path: &str) -> String {
    let possible: &[u8] = match path {
        "kubegc plan" | "kubegc why" | "kubegc snapshot" | "kubegc status" => &[0, 1, 2, 3, 130],
        "kubegc collect" => &[0, 1, 2, 3, 5, 130],
        "kubegc run" => &[0, 1, 2, 5, 130],
        "kubegc controller plan" => &[0, 1, 2, 3, 4, 130],
        path if path.starts_with("kubegc controller") => &[0, 1, 2, 3, 130],
        _ => &[0, 1, 2],
    };
    let lines = STATUSES.iter().filter(|(status, _)| possible.contains(status));
    let lines: Vec<_> = lines.map(|(status, meaning)| format!("  {status:<4} {meaning}")).collect();
    format!("Exit status:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn leaves(command: &Command, path: &str) -> Vec<String> {
        let path = format!("{path}{} ", command.get_name());
        let below = command.get_subcommands().filter(|command| !command.is_hide_set());
        let below: Vec<_> = below.flat_map(|command| leaves(command, &path)).collect();
        if below.is_empty() { vec![path] } else { below }
    }

    #[test]
    fn the_readme_has_the_exit_statuses_of_the_help() {
        let readme = include_str!("../../../README.md").replace('`', "").replace('\n', " ");
        assert!(readme.contains(&exit_statuses()), "{}", exit_statuses());
    }

    /// `demo` and `man` are complete as they are.
    #[test]
    fn every_command_has_examples_and_clap_accepts_them() {
        let leaves = leaves(&Cli::command(), "");
        for command in leaves.iter().filter(|command| !["kubegc demo ", "kubegc man "].contains(&&***command)) {
            assert!(!examples(command).is_empty(), "{command}");
        }
        for (comment, line) in EXAMPLES {
            let words = line.split(['>', '<']).next().unwrap().split_whitespace();
            let of = leaves.iter().filter(|command| examples(command).contains(&format!("\n  {line}\n")));
            assert_eq!(of.count(), 1, "{line}");
            if line.starts_with("kubegc") {
                assert!(Cli::command().try_get_matches_from(words).is_ok(), "{line}");
            }
            assert!(!comment.ends_with('.'), "{comment}");
        }
    }
}
