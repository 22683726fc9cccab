//! The settings: `kubegc config show`, `kubegc config explain` and `kubegc config default`.

use clap_complete::ArgValueCompleter;

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::session::block_on;
use crate::cli::render::output::{Format, Output};
use crate::cli::render::tables::{SETTINGS, SETTINGS_IN_FORCE};
use crate::cli::verb::{SHOWS, Start, TEXT, Verb, VerbFacts};
use crate::cli::verbs::completions;
use crate::config::{KEYS, Key, Loaded, default_toml, find, nearest};
use crate::cri;

/// Print the settings in force and their origins
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {}

/// List the settings with their flags, or explain one: its meaning, values, default and origin
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    /// Key, as `images.min_age` [default: list all]
    #[arg(add = ArgValueCompleter::new(completions::keys))]
    key: Option<String>,
}

/// Print a configuration file with all defaults as comments
#[derive(Debug, clap::Args)]
pub(super) struct DefaultArgs {}

// === impl ShowArgs: the command ===

impl Verb for ShowArgs {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "config show",
            examples: &[("Show each setting with its origin", "kubegc config show -o table")],
            formats: TEXT,
            ..SHOWS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = as_used(start.load()?)?;
        match output.format {
            None => output.text(&loaded.to_toml()),
            Some(Format::Json) => output.pretty_json(&loaded.to_json()),
            Some(Format::Yaml) => output.yaml(&loaded.to_json()),
            Some(Format::Table | Format::Wide | Format::Name | Format::Csv | Format::Crictl | Format::Html) => {
                let rows = KEYS.iter().map(|key| {
                    [key.name.to_owned(), key.get(&loaded.settings).to_string(), loaded.origin(key).to_string()]
                });
                output.text(&SETTINGS_IN_FORCE.text(rows))
            }
        }
    }
}

// === impl ExplainArgs: the command ===

impl Verb for ExplainArgs {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "config explain",
            examples: &[
                ("List the settings with their flags", "kubegc config explain"),
                ("Explain one setting", "kubegc config explain images.min_age"),
            ],
            ..SHOWS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        match &self.key {
            None => output.text(&settings()),
            Some(key) => explain(key, &start.load()?, output),
        }
    }
}

// === impl DefaultArgs: the command ===

impl Verb for DefaultArgs {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "config default",
            examples: &[("Begin a configuration file", "kubegc config default > kubegc.toml")],
            ..SHOWS
        }
    }

    fn run(&self, _: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        output.text(&default_toml())
    }
}

/// Returns the settings with the sockets that a command would use. Without a runtime they are shown all the same.
pub(super) fn as_used(loaded: Loaded) -> Result<Loaded, CliError> {
    let (candidates, options) = (loaded.candidates(), &loaded.settings.runtime.options);
    let found = block_on(async { Ok(cri::resolve(&candidates, options).await) })?;
    Ok(loaded.with_endpoint(&found))
}

/// Returns the table of all settings.
fn settings() -> String {
    let flags = |key: &Key| key.flags.iter().map(|flag| format!("--{flag}")).collect::<Vec<_>>().join(", ");
    let rows = KEYS.iter().map(|key| [key.name.to_owned(), flags(key), key.default().to_string(), key.summary()]);
    SETTINGS.text(rows)
}

/// Prints what a setting means, and its value in force.
fn explain(name: &str, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let Some(key) = find(name) else {
        let error = CliError::message(ErrorKind::Usage, format!("no setting {name:?}"));
        return Err(match nearest(name) {
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
