//! `kubegc config schema`.

use crate::cli::cli_error::CliError;
use crate::cli::document_table::SchemaOf;
use crate::cli::render::output::{Format, Output};
use crate::cli::verb::{READS_FILES, Start, Verb, VerbFacts};

/// Print the JSON Schema of a document
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Document kind
    #[arg(value_enum)]
    of: SchemaOf,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "config schema",
            examples: &[("Print the schema of a plan", "kubegc config schema plan")],
            formats: &[Format::Json],
            ..READS_FILES
        }
    }

    fn run(&self, _: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        output.pretty_json(&self.of.schema())
    }
}
