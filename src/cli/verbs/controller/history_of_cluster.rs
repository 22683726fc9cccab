//! `kubegc controller history`.

use super::DELETIONS;
use crate::cli::args::kubectl_args::NamespaceArgs;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::render::output::Output;
use crate::cli::verb::{LIST, READS_FILES, Start, Verb, VerbFacts};
use crate::record::{DeletionEntry, DeletionLog};

/// Show what collect, relink and run deleted and changed, and why
///
/// They write the history to the file of `controller.history`. Without that setting there is none.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Maximum number of entries
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
    #[command(flatten)]
    namespace: NamespaceArgs,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "controller history",
            examples: &[(
                "Show what was deleted last",
                "kubegc controller history --controller-history /var/lib/kubegc/controller.jsonl",
            )],
            formats: LIST,
            ..READS_FILES
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = start.load()?;
        let source = Source::new(&loaded, start);
        let Some(path) = &source.settings().controller_history else {
            let error = CliError::message(ErrorKind::Usage, "controller.history names no file");
            return Err(error.hint("--controller-history FILE names one"));
        };
        let entries = DeletionLog::read(path, self.limit, self.namespace.get())?;
        let names = entries.iter().map(|it| format!("{}/{}", it.kind.to_lowercase(), it.name)).collect::<Vec<_>>();
        output.entries(&entries, names, || text(&entries))
    }
}

fn text(entries: &[DeletionEntry]) -> String {
    if entries.is_empty() {
        return "Nothing was deleted.\n".to_owned();
    }
    let words = |text: &str| text.replace('_', " ");
    let rows = entries.iter().map(|it| {
        let why =
            if it.owners.is_empty() { words(&it.reason) } else { format!("{}: {}", words(&it.reason), it.owners) };
        let of_object = [it.kind.clone(), it.namespace.clone(), it.name.clone()];
        let [kind, namespace, name] = of_object;
        [
            it.at.to_string(),
            it.command.clone(),
            it.cluster.clone(),
            words(&it.action),
            kind,
            namespace,
            name,
            words(&it.result),
            why,
        ]
    });
    DELETIONS.text(rows)
}
