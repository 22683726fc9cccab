//! The examples in the long help of each command.

/// Each command with its examples: a comment, and a command line.
const EXAMPLES: [(&str, &[(&str, &str)]); 22] = [
    (
        "plan",
        &[
            ("Show what a pass would remove now, and why", "kubegc plan"),
            ("List each kept object too", "kubegc plan -o wide"),
            ("Show only the containers of one namespace", "kubegc plan --kind container -n shop"),
            ("Save a plan, to carry it out later", "kubegc plan -o json > plan.json"),
        ],
    ),
    (
        "collect",
        &[
            ("Make one pass", "kubegc collect"),
            ("Make all checks, but remove nothing", "kubegc collect --dry-run"),
            ("Remove one unused image", "kubegc collect image/registry.example.com/web:1.0"),
            ("Carry out a saved plan", "kubegc collect --plan plan.json"),
            ("Free a full disk", "kubegc collect --pressure"),
        ],
    ),
    (
        "run",
        &[
            ("Run the agent with the settings of a file", "kubegc run --config /etc/kubegc/kubegc.toml"),
            ("Log what it would remove, without removing it", "kubegc run --mode observe"),
        ],
    ),
    (
        "why",
        &[
            ("Explain an image", "kubegc why registry.example.com/web:1.0"),
            ("Explain all objects of a pod", "kubegc why pod web-0 -n shop"),
            ("Explain a container by the beginning of its id", "kubegc why 509b9c7"),
        ],
    ),
    ("snapshot", &[("Save the state of this node, for `plan --snapshot` elsewhere", "kubegc snapshot > node.json")]),
    (
        "images",
        &[
            ("List the images by size", "kubegc images"),
            ("List those that were used least recently first", "kubegc images --sort-by last-used"),
            ("Print the ids only", "kubegc images -q"),
        ],
    ),
    (
        "history",
        &[
            ("Show the last removals", "kubegc history"),
            ("Show what was removed of a namespace in a day", "kubegc history --since 24h --namespace shop"),
            ("Add up the removals by day and reason", "kubegc history --sums"),
            ("Show the runs", "kubegc history --runs"),
            ("Show the run with number 12 and its removals", "kubegc history 12"),
        ],
    ),
    ("report", &[("Write the page to a file", "kubegc report node.html")]),
    (
        "status",
        &[
            ("Show the agent and its last passes", "kubegc status"),
            ("Show them every 5 seconds", "kubegc status --watch=5s"),
        ],
    ),
    ("config check", &[("Check a file before the agent reads it", "kubegc config check kubegc.toml")]),
    ("config show", &[("Show each setting with its origin", "kubegc config show -o table")]),
    ("config explain", &[("Explain one setting", "kubegc config explain images.min_age")]),
    ("config default", &[("Begin a configuration file", "kubegc config default > kubegc.toml")]),
    ("config schema", &[("Print the schema of a plan", "kubegc config schema plan")]),
    (
        "controller plan",
        &[
            ("Show what would be deleted in a cluster", "kubegc controller plan"),
            ("Fail if an object has no owner any more", "kubegc controller plan --fail-on dangling"),
            ("Show the pods that no kubelet finishes", "kubegc controller plan --pods-only"),
        ],
    ),
    (
        "controller why",
        &[
            ("Explain an object", "kubegc controller why deployment/web -n shop"),
            (
                "Show what would follow from its deletion",
                "kubegc controller why deployment/web --if-deleted foreground",
            ),
        ],
    ),
    (
        "controller collect",
        &[
            ("Make all checks, but change nothing", "kubegc controller collect --dry-run"),
            ("Delete at most 100 objects", "kubegc controller collect --max 100"),
        ],
    ),
    ("controller run", &[("Run the controller", "kubegc controller run --kubeconfig admin.conf")]),
    ("controller snapshot", &[("Save the metadata of a cluster", "kubegc controller snapshot > cluster.json")]),
    ("controller status", &[("Show which process collects", "kubegc controller status")]),
    ("completions", &[("Complete commands in this shell", "source <(kubegc completions bash)")]),
    ("version", &[("Print the versions for a program", "kubegc version -o json")]),
];

/// Returns the examples of a command, by its name without `kubegc`; empty = it has none.
pub(super) fn text(command: &str) -> String {
    let of = EXAMPLES.iter().filter(|(name, _)| *name == command).flat_map(|(_, examples)| *examples);
    let lines: Vec<_> = of.map(|(comment, line)| format!("  # {comment}\n  {line}\n")).collect();
    if lines.is_empty() { String::new() } else { format!("Examples:\n{}\n", lines.concat()) }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use super::super::Cli;
    use super::*;

    fn leaves(command: &Command, path: &str) -> Vec<String> {
        let below = command.get_subcommands().filter(|command| !command.is_hide_set());
        let below: Vec<_> =
            below.flat_map(|command| leaves(command, &format!("{path} {}", command.get_name()))).collect();
        if below.is_empty() { vec![path.trim().to_owned()] } else { below }
    }

    /// `demo` and `man` are complete as they are.
    #[test]
    fn every_command_has_examples_and_clap_accepts_them() {
        for command in leaves(&Cli::command(), "").iter().filter(|command| !["demo", "man"].contains(&&***command)) {
            assert!(!text(command).is_empty(), "{command}");
        }
        for (command, examples) in EXAMPLES {
            for (comment, line) in examples {
                let words = line.split(['>', '<']).next().unwrap().split_whitespace();
                let begin = format!("kubegc {command}");
                assert!(line.contains(&begin), "{line}");
                if line.starts_with("kubegc") {
                    assert!(Cli::command().try_get_matches_from(words).is_ok(), "{line}");
                }
                assert!(!comment.ends_with('.'), "{comment}");
            }
        }
    }
}
