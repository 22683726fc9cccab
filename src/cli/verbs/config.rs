//! `kubegc config`.

pub(in crate::cli) mod rules_page;

use std::path::PathBuf;

use clap::Subcommand;
use clap_complete::ArgValueCompleter;
use serde::Serialize;

use super::completions;
use crate::cli::args::formats;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::document_table::{Document, SchemaOf};
use crate::cli::input::session::block_on;
use crate::cli::render::format;
use crate::cli::render::grid::table;
use crate::cli::render::output::{Format, Output};
use crate::cli::verb::{READS_FILES, Start, Verb as CommandVerb, VerbFacts, formats_of};
use crate::config::{ConfigError, ConfigFault, KEYS, Key, Loaded};
use crate::cri;
use rules_page as rules;

/// Check and show the configuration
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Check the configuration and report every error
    Check {
        /// Configuration file, as --config
        file: Option<PathBuf>,
    },
    /// Print the settings in force and their origins
    Show,
    /// Show each rule, and what it decides now
    Rules {
        /// Use a snapshot instead of this node (- for standard input)
        #[arg(long, value_name = "FILE")]
        snapshot: Option<PathBuf>,
    },
    /// List the settings with their flags, or explain one: its meaning, values, default and origin
    Explain {
        /// Key, as `images.min_age` [default: list all]
        #[arg(add = ArgValueCompleter::new(completions::keys))]
        key: Option<String>,
    },
    /// Print a configuration file with all defaults as comments
    Default,
    /// Print the JSON Schema of a document
    Schema {
        /// Document kind
        #[arg(value_enum)]
        of: SchemaOf,
    },
}

// === impl Args: the command ===

impl CommandVerb for Args {
    fn facts() -> &'static [VerbFacts] {
        &[
            VerbFacts {
                name: "config check",
                examples: &[("Check a file before the agent reads it", "kubegc config check kubegc.toml")],
                formats: formats::TEXT,
                statuses: READS_FILES,
                words: &[],
            },
            VerbFacts {
                name: "config show",
                examples: &[("Show each setting with its origin", "kubegc config show -o table")],
                formats: formats::TEXT,
                statuses: READS_FILES,
                words: &[],
            },
            VerbFacts {
                name: "config rules",
                examples: &[("Show what each rule decides now", "kubegc config rules")],
                formats: formats::ROWS,
                statuses: READS_FILES,
                words: &[],
            },
            VerbFacts {
                name: "config explain",
                examples: &[
                    ("List the settings with their flags", "kubegc config explain"),
                    ("Explain one setting", "kubegc config explain images.min_age"),
                ],
                formats: &[],
                statuses: READS_FILES,
                words: &[],
            },
            VerbFacts {
                name: "config default",
                examples: &[("Begin a configuration file", "kubegc config default > kubegc.toml")],
                formats: &[],
                statuses: READS_FILES,
                words: &[],
            },
            VerbFacts {
                name: "config schema",
                examples: &[("Print the schema of a plan", "kubegc config schema plan")],
                formats: &[Format::Json],
                statuses: READS_FILES,
                words: &[],
            },
        ]
    }

    fn formats(&self) -> Option<(&'static str, &'static [Format])> {
        let name = match &self.verb {
            Verb::Check { .. } => "config check",
            Verb::Show => "config show",
            Verb::Rules { .. } => "config rules",
            Verb::Explain { .. } => "config explain",
            Verb::Default => "config default",
            Verb::Schema { .. } => "config schema",
        };
        formats_of(Self::facts(), name)
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        run(self, || start.load(), output)
    }

    fn only_shows(&self) -> bool {
        !matches!(self.verb, Verb::Rules { .. })
    }

    fn config_file(&self) -> Option<&PathBuf> {
        match &self.verb {
            Verb::Check { file } => file.as_ref(),
            _ => None,
        }
    }
}

/// Runs a subcommand. Only the subcommands that need the settings in force read the configuration.
fn run(args: &Args, load: impl Fn() -> Result<Loaded, CliError>, output: &mut Output) -> Result<(), CliError> {
    match &args.verb {
        Verb::Check { .. } => check(load(), output),
        Verb::Show => show(&as_used(load()?)?, output),
        Verb::Rules { snapshot } => rules::run(snapshot.as_deref(), &load()?, output),
        Verb::Explain { key: None } => output.text(&settings()),
        Verb::Explain { key: Some(key) } => explain(key, &load()?, output),
        Verb::Default => output.text(&crate::config::default_toml()),
        Verb::Schema { of } => output.pretty_json(&of.schema()),
    }
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

// === impl Fault ===

impl From<&ConfigFault> for Fault {
    fn from(fault: &ConfigFault) -> Self {
        let (key, value) = fault.written.clone().unzip();
        let (line, column) = fault.position().unzip();
        Self { origin: fault.origin.to_string(), line, column, key, value, message: fault.right.clone() }
    }
}

/// Checks the configuration, and that the files that it names exist.
fn check(loaded: Result<Loaded, CliError>, output: &mut Output) -> Result<(), CliError> {
    let checked = loaded.and_then(|loaded| {
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

/// Returns the settings with the sockets that a command would use. Without a runtime they are shown all the same.
fn as_used(loaded: Loaded) -> Result<Loaded, CliError> {
    let (candidates, options) = (loaded.candidates(), &loaded.settings.runtime.options);
    let found = block_on(async { Ok(cri::resolve(&candidates, options).await) })?;
    Ok(loaded.with_endpoint(&found))
}

fn show(loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    match output.format {
        None => output.text(&loaded.to_toml()),
        Some(Format::Json) => output.pretty_json(&loaded.to_json()),
        Some(Format::Yaml) => output.yaml(&loaded.to_json()),
        Some(Format::Table | Format::Wide | Format::Name | Format::Csv | Format::Crictl | Format::Html) => {
            let rows = KEYS.iter().map(|key| {
                [key.name.to_owned(), key.get(&loaded.settings).to_string(), loaded.origin(key).to_string()]
            });
            output.text(&table(["KEY", "VALUE", "ORIGIN"], rows))
        }
    }
}

/// Returns the table of all settings.
fn settings() -> String {
    let flags = |key: &Key| key.flags.iter().map(|flag| format!("--{flag}")).collect::<Vec<_>>().join(", ");
    let rows = KEYS.iter().map(|key| [key.name.to_owned(), flags(key), key.default().to_string(), key.summary()]);
    table(["KEY", "FLAG", "DEFAULT", "MEANING"], rows)
}

/// Prints what a setting means, and its value in force.
fn explain(name: &str, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let Some(key) = crate::config::find(name) else {
        let error = CliError::message(ErrorKind::Usage, format!("no setting {name:?}"));
        return Err(match crate::config::nearest(name) {
            Some(nearest) => error.hint(format!("did you mean {nearest}?")),
            None => error.hint("`kubegc config default` prints every setting with its default"),
        });
    };
    let flags: Vec<_> = key.flags.iter().map(|flag| format!("--{flag}")).collect();
    let flags = if flags.is_empty() { String::new() } else { format!("Flags:     {}\n", flags.join(", ")) };
    let (value, default) = (key.get(&loaded.settings), key.default());
    output.page(&format!(
        "{name}\n\n{}\n\nValue:     {value} ({})\nDefault:   {default}\nAllowed:   {}\n{flags}",
        key.description(),
        loaded.origin(key),
        key.allowed(),
    ))
}
