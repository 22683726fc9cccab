//! `kubegc version`.

use serde::Serialize;

use crate::cli::cli_error::CliError;
use crate::cli::input::session::block_on;
use crate::cli::render::format;
use crate::cli::render::output::Output;
use crate::cli::verb::{READS_FILES, Start, TEXT, Verb, VerbFacts};
use crate::config::Loaded;
use crate::daemon::node::LocalNode;
use crate::model::{Runtime, Seen};

/// Show the versions of kubegc, the CRI and the runtime
#[derive(Debug, clap::Args)]
pub struct Args {}

#[derive(Serialize)]
struct Versions {
    kind: &'static str,
    /// The version of kubegc.
    version: &'static str,
    /// The commit from which it was built; `null` = unknown.
    commit: Option<&'static str>,
    /// The version of the CRI that it speaks.
    cri: &'static str,
    runtime: Seen<Runtime>,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "version",
            examples: &[("Print the versions for a program", "kubegc version -o json")],
            formats: TEXT,
            ..READS_FILES
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        run(self, &start.load()?, output)
    }
}

/// Prints the versions. Without a runtime, its version is unavailable, and that is no failure.
fn run(Args {}: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let runtime = block_on(async { Ok(LocalNode::find(loaded).await?.reader(&loaded.settings).runtime().await?) });
    let runtime = Seen::from(runtime);
    let version = env!("CARGO_PKG_VERSION");
    let commit = option_env!("KUBEGC_COMMIT").filter(|commit| !commit.is_empty());
    let versions = Versions { kind: "Version", version, commit, cri: "v1", runtime };
    output.result(&versions, || versions.text())
}

// === impl Versions ===

impl Versions {
    fn text(&self) -> String {
        let text = |runtime: &Runtime| format!("{} {}", runtime.name, runtime.version);
        let runtime = format::seen(&self.runtime, "unavailable", text);
        let commit = self.commit.unwrap_or("unknown");
        format!("kubegc:   {}, commit {commit}\nCRI:      {}\nRuntime:  {runtime}\n", self.version, self.cri)
    }
}
