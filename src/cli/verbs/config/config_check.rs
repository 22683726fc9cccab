//! `kubegc config check`.

use std::path::PathBuf;

use serde::Serialize;

use super::show::as_used;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::format;
use crate::cli::render::output::{Document, Format, Output};
use crate::cli::verb::{SHOWS, Start, TEXT, Verb, VerbFacts};
use crate::config::{ConfigError, ConfigFault, Loaded};

/// Check the configuration and report every error
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file, as --config
    file: Option<PathBuf>,
}

/// The result of `config check`, for programs.
#[derive(Serialize)]
pub(in crate::cli) struct ConfigCheck {
    valid: bool,
    faults: Vec<Fault>,
    warnings: Vec<String>,
}

/// One fault of the configuration, for programs.
#[derive(Serialize)]
struct Fault {
    /// Where the value is from: a file, a flag or a variable.
    origin: String,
    line: Option<usize>,
    column: Option<usize>,
    key: Option<String>,
    value: Option<String>,
    message: String,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "config check",
            examples: &[("Check a file before the agent reads it", "kubegc config check kubegc.toml")],
            formats: TEXT,
            ..SHOWS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        // The files that the configuration names must exist.
        let checked = start.load().and_then(|loaded| {
            let faults = loaded.missing_files();
            if !faults.is_empty() {
                return Err(ConfigError { faults }.into());
            }
            // Whether removals can be undone depends on the runtime.
            if loaded.settings.policy.images.undo.is_zero() { Ok(loaded) } else { as_used(loaded) }
        });
        match output.format {
            Some(Format::Json | Format::Yaml) => check_document(&checked, output)?,
            _ => return check_text(&checked?, output),
        }
        let faults = checked.err().map_or(0, |error| error.config_faults().len());
        if faults == 0 {
            return Ok(());
        }
        Err(CliError::message(ErrorKind::Config, format!("{} in the configuration", format::count(faults, "fault"))))
    }

    fn config_file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }
}

// === impl Fault ===

impl From<&ConfigFault> for Fault {
    fn from(fault: &ConfigFault) -> Self {
        let (key, value) = fault.written.clone().unzip();
        let (line, column) = fault.position().unzip();
        Self { origin: fault.origin.to_string(), line, column, key, value, message: fault.right.clone() }
    }
}

fn check_document(checked: &Result<Loaded, CliError>, output: &mut Output) -> Result<(), CliError> {
    let faults = checked.as_ref().err().map_or(&[][..], CliError::config_faults).iter().map(Fault::from).collect();
    let warnings = checked.as_ref().map(Loaded::warnings).unwrap_or_default();
    output.document(&Document::of(ConfigCheck { valid: checked.is_ok(), faults, warnings }))
}

fn check_text(loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let warnings: Vec<_> = loaded.warnings().iter().map(|warning| format!("warning: {warning}\n")).collect();
    let count = match warnings.len() {
        0 => String::new(),
        count => format!(", with {}", format::count(count, "warning")),
    };
    output.text(&format!("{}the configuration is sound{count}\n", warnings.concat()))
}
