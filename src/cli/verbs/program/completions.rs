//! `kubegc completions`, and the answers to a shell that completes: commands, flags, setting keys, and the objects of this
//! node.

use std::ffi::OsStr;
use std::time::Duration;

use clap::{CommandFactory, ValueEnum};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, CompletionCandidate};

use crate::cli::Cli;
use crate::cli::args::kubectl_args::NamespaceArgs;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::lookup::Search;
use crate::cli::input::session::{block_on, lists};
use crate::cli::render::output::Output;
use crate::cli::verb::{READS_FILES, Start, Verb, VerbFacts};
use crate::config::{Environment, KEYS, Key, Typed, load};
use crate::model::Snapshot;

/// The variable with which a shell requests completions.
const VARIABLE: &str = "COMPLETE";
/// The longest time that a person waits for the objects of the node.
const LIMIT: Duration = Duration::from_secs(2);

/// Print shell completions
///
/// The script calls kubegc for the candidates, so they include the objects of this node. Source the script, or save it
/// where the shell looks for it, such as /usr/share/bash-completion/completions/kubegc.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "completions",
            examples: &[("Complete commands in this shell", "source <(kubegc completions bash)")],
            ..READS_FILES
        }
    }

    fn run(&self, _: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        run(self, output)
    }
}

fn run(args: &Args, output: &mut Output) -> Result<(), CliError> {
    let name = args.shell.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let unknown = || CliError::message(ErrorKind::Usage, format!("no completions for {name}"));
    let shells = Shells::builtins();
    let shell = shells.completer(&name).ok_or_else(unknown)?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "kubegc", "kubegc", "kubegc", &mut script)?;
    output.text(&(String::from_utf8_lossy(&script).trim_end().to_owned() + "\n"))
}

/// Answers a shell that completes a command line, and ends the process. Otherwise it does nothing.
pub(in crate::cli) fn answer_shell() {
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
}

/// Offers the keys for `--set`.
pub(in crate::cli) fn settings(current: &OsStr) -> Vec<CompletionCandidate> {
    keys_then("=", current)
}

/// Offers the keys for `config explain`.
pub(in crate::cli) fn keys(current: &OsStr) -> Vec<CompletionCandidate> {
    keys_then("", current)
}

fn keys_then(suffix: &str, current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let keys = KEYS.iter().filter(|key| key.name.starts_with(&*current));
    let help = |key: &Key| Some(key.summary().into());
    keys.map(|key| CompletionCandidate::new(format!("{}{suffix}", key.name)).help(help(key))).collect()
}

/// Offers the pods, containers and images of this node. Without a runtime it offers nothing.
pub(in crate::cli) fn objects(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let names = |snapshot| Search { snapshot: &snapshot, namespace: &NamespaceArgs::default() }.names();
    let names = observed().map(names).unwrap_or_default();
    names.into_iter().filter(|name| name.starts_with(&*current)).map(CompletionCandidate::new).collect()
}

fn observed() -> Result<Snapshot, CliError> {
    let environment = Environment::read();
    let loaded = load(&Typed::default(), &environment)?.for_command(&environment);
    block_on(async {
        let late = |_| CliError::message(ErrorKind::Runtime, "the runtime does not answer in time");
        tokio::time::timeout(LIMIT, lists(&loaded)).await.map_err(late)?
    })
}
