//! The completions in real shells: bash, zsh and fish. Each sources the script and completes a command line.

use std::process::Command;

use jiff::Timestamp;
use kubegc::sim::{MIB, Node, Sim};

use crate::shell::Shell;

/// A shell on a node with one pod.
fn host() -> (Shell, Sim) {
    let node = Node::new().now(Timestamp::now()).image("r.example/team/web:1", &[("base", MIB)]);
    let sim = Sim::start(node.pod("shop", "checkout-0", "u1").running("app", "r.example/team/web:1")).unwrap();
    let shell = Shell::new();
    let config = format!(
        "pods.source = \"none\"\nnode = \"n1\"\nruntime.endpoint = \"{}\"\nstate.path = \"{}\"\n",
        sim.endpoint(),
        shell.path("kubegc.db").display()
    );
    (shell.with("kubegc.toml", &config), sim)
}

/// Completes the last of these words in a shell, and returns the candidates.
fn complete(shell: &Shell, program: &str, words: &[&str]) -> Vec<String> {
    let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let (all, last, index) = (quoted.join(" "), quoted.last().unwrap(), words.len() - 1);
    let script = match program {
        "bash" => format!(
            "source <(kubegc completions bash); COMP_WORDS=({all}); COMP_CWORD={index}; COMP_TYPE=9; \
             _clap_complete_kubegc kubegc {last} ''; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        ),
        "zsh" => format!(
            "compdef() {{ :; }}; _describe() {{ print -l -- ${{(P)3}}; }}; source <(kubegc completions zsh); \
             words=({all}); CURRENT={}; _clap_dynamic_completer_kubegc",
            index + 1
        ),
        _ => format!("kubegc completions fish | source; complete -C \"{}\"", words.join(" ")),
    };
    let arguments: &[&str] = match program {
        "bash" => &["--norc", "--noprofile", "-c"],
        "zsh" => &["-f", "-c"],
        _ => &["--no-config", "-c"],
    };
    let binary = assert_cmd::cargo::cargo_bin!("kubegc");
    let template = shell.command(&[]);
    let mut command = Command::new(program);
    command.args(arguments).arg(&script).env_clear().current_dir(shell.path(""));
    command.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("HOME", shell.path("")).env("PATH", format!("{}:/usr/bin:/bin", binary.parent().unwrap().display()));
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}: run scripts/setup.sh"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    // zsh and fish show a description after the candidate.
    let candidate = |line: &str| match program {
        "zsh" => line.replace("\\:", "\u{0}").split(':').next().unwrap_or_default().replace('\u{0}', ":"),
        _ => line.split('\t').next().unwrap_or_default().to_owned(),
    };
    text.lines().filter(|line| !line.is_empty()).map(candidate).collect()
}

#[test]
fn every_shell_completes_commands_flags_values_and_objects() {
    let (shell, _sim) = host();
    for program in ["bash", "zsh", "fish"] {
        let complete = |words: &[&str]| complete(&shell, program, words);
        let first = complete(&["kubegc", ""]);
        assert!(first.iter().any(|word| word == "plan") && !first[0].starts_with('-'), "{program}: {first:?}");
        assert_eq!(complete(&["kubegc", "wh"]), ["why"], "{program}");
        let orders = complete(&["kubegc", "images", "--sort-by", ""]);
        assert_eq!(orders, ["size", "last-used", "first-seen"], "{program}");
        let keys = complete(&["kubegc", "plan", "--set", "images.low"]);
        assert_eq!(keys, ["images.low_threshold_percent="], "{program}");
        assert_eq!(complete(&["kubegc", "config", "explain", "images.min"]), ["images.min_age"], "{program}");
        // On a busy machine the runtime may not answer in the time that a key has.
        let objects = (0..20).map(|_| complete(&["kubegc", "why", "sho"])).find(|objects| !objects.is_empty());
        let objects = objects.unwrap_or_default();
        assert_eq!(objects, ["shop/checkout-0", "shop/checkout-0/app"], "{program}");
        assert_eq!(complete(&["kubegc", "why", "kubegc.t"]), Vec::<String>::new(), "{program}: no files");
        assert_eq!(complete(&["kubegc", "plan", "--snapshot", "kubegc.t"]), ["kubegc.toml"], "{program}: files");
    }
}

#[test]
fn versions_settings_and_man_pages_are_shown() {
    let (shell, _sim) = host();
    let version = shell.run(&["version"]);
    assert!(version.contains("CRI:      v1\nRuntime:  ") && !version.contains("unavailable"), "{version}");
    insta::assert_snapshot!(Shell::new().run(&["config", "explain", "images.min-age"]), @r#"
    exit Some(2)
    ! error: no setting "images.min-age"
    ! hint: did you mean images.min_age?
    "#);
    let explained = shell.run(&["config", "explain", "images.min_age", "--minimum-image-ttl-duration", "5m"]);
    assert!(explained.contains("Value:     \"5m\" (--minimum-image-ttl-duration)"), "{explained}");
    shell.run(&["man", "pages"]);
    assert!(std::fs::read_to_string(shell.path("pages/kubegc-plan.1")).unwrap().contains(".TH kubegc-plan 1"));
}
