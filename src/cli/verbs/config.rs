//! `kubegc config`.

pub(in crate::cli) mod config_check;
pub(in crate::cli) mod rules_page;
mod schema;
mod show;

use crate::cli::verb::{Chosen, VerbFacts, Word, verbs};

/// Check and show the configuration
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

verbs! {
    Command {
        Check(config_check::Args),
        Show(show::ShowArgs),
        Rules(rules_page::Args),
        Explain(show::ExplainArgs),
        Default(show::DefaultArgs),
        Schema(schema::Args),
    }
}

// === impl Args ===

impl Word for Args {
    fn all() -> Vec<&'static VerbFacts> {
        Command::all()
    }

    fn chosen(&self) -> Chosen<'_> {
        self.command.chosen()
    }
}
