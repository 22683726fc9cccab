//! `kubegc config`.

use clap::{Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use schemars::schema_for;

use super::collect::Collection;
use super::images::Images;
use super::render::Grid;
use super::session::block_on;
use super::{CliError, ErrorKind, Format, Output, candidates, format};
use crate::config::{KEYS, Loaded};
use crate::cri;
use crate::model::Snapshot;
use crate::plan::Plan;

/// Check and show the configuration
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Check the configuration and report every error
    Check,
    /// Print the settings in force and their origins
    Show,
    /// Explain a setting: its meaning, values, default and origin
    Explain {
        /// Key, as `images.min_age`
        #[arg(add = ArgValueCompleter::new(candidates::keys))]
        key: String,
    },
    /// Print a commented configuration file with all defaults
    Default,
    /// Print the JSON Schema of a document
    Schema {
        /// Document kind
        #[arg(value_enum)]
        of: Document,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Document {
    /// Output of `snapshot`, input of `plan --snapshot`
    Snapshot,
    /// Output of `plan -o json`, input of `collect --plan`
    Plan,
    /// Output of `collect -o json`
    Collection,
    /// Output of `images -o json`
    Images,
    /// The configuration file
    Config,
}

/// Runs a subcommand. Only the subcommands that need the settings in force read the configuration.
pub fn run(args: &Args, load: impl Fn() -> Result<Loaded, CliError>, output: &mut Output) -> Result<(), CliError> {
    match &args.verb {
        Verb::Check => check(&load()?, output),
        Verb::Show => show(&as_used(load()?)?, output),
        Verb::Explain { key } => explain(key, &load()?, output),
        Verb::Default => output.text(&crate::config::default_toml()),
        Verb::Schema { of } => schema(*of, output),
    }
}

fn check(loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
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
        Some(format @ (Format::Table | Format::Wide | Format::Name)) => {
            let mut grid = Grid::new(&["KEY", "VALUE", "ORIGIN"]);
            for key in KEYS {
                grid.row([key.name.to_owned(), key.get(&loaded.settings).to_string(), loaded.origin(key).to_string()]);
            }
            output.text(&grid.text(format == Format::Wide))
        }
    }
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
    let (value, default) = (key.get(&loaded.settings), key.get(&crate::config::Settings::default()));
    output.page(&format!(
        "{name}\n\n{}\n\nValue:     {value} ({})\nDefault:   {default}\nAllowed:   {}\n{flags}",
        key.description(),
        loaded.origin(key),
        key.allowed(),
    ))
}

fn schema(of: Document, output: &mut Output) -> Result<(), CliError> {
    match of {
        Document::Snapshot => output.pretty_json(&schema_for!(Snapshot)),
        Document::Plan => output.pretty_json(&schema_for!(Plan)),
        Document::Collection => output.pretty_json(&schema_for!(Collection<'static>)),
        Document::Images => output.pretty_json(&schema_for!(Images)),
        Document::Config => output.pretty_json(&crate::config::schema()),
    }
}
