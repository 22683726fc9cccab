//! A command: its arguments, on which [`Verb`] is implemented, with all that help, formats, suggestions and the start need to
//! know of it.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use super::args::global::Global;
use super::cli_error::CliError;
use super::logging;
use super::render::output::{Format, Output};
use crate::config::{ConfigFault, ConfigFiles, Environment, Loaded};

/// The exit statuses of a command that reads files only.
pub(in crate::cli) const READS_FILES: &[u8] = &[0, 1, 2];
/// The exit statuses of a command that looks at the node or at a cluster.
pub(in crate::cli) const LOOKS: &[u8] = &[0, 1, 2, 3, 130];

/// A command.
pub(in crate::cli) trait Verb {
    /// Returns what is known of the command without its arguments. One with subcommands has an entry for each of them.
    fn facts() -> &'static [VerbFacts]
    where
        Self: Sized;

    /// Runs the command.
    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError>;

    /// Returns the name of the command with a flag or subcommand that decides the output formats, and those; `None` = none does.
    fn formats(&self) -> Option<(&'static str, &'static [Format])> {
        None
    }

    /// Returns whether it is a service, which waits for the runtime and logs for a service manager.
    fn is_service(&self) -> bool {
        false
    }

    /// Returns whether it only shows settings, and does not look at the node as a command does.
    fn only_shows(&self) -> bool {
        false
    }

    /// Returns the configuration file that an argument of its own names.
    fn config_file(&self) -> Option<&PathBuf> {
        None
    }
}

/// What is known of a command without its arguments.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct VerbFacts {
    /// Its name, as `controller plan`.
    pub name: &'static str,
    /// Examples: what for, and a command line.
    pub examples: &'static [(&'static str, &'static str)],
    /// Its output formats; none = it has no `-o`.
    pub formats: &'static [Format],
    /// The exit statuses that it can end with.
    pub statuses: &'static [u8],
    /// Words of kubectl, crictl, docker and git for the same.
    pub words: &'static [&'static str],
}

/// What a command needs to begin: it loads the settings, and starts the log by them.
pub(in crate::cli) struct Start<'a> {
    pub global: &'a Global,
    pub environment: &'a Environment,
    pub verb: &'a dyn Verb,
}

/// Returns the name and the formats of the subcommand with this name.
pub(in crate::cli) fn formats_of(facts: &'static [VerbFacts], name: &str) -> Option<(&'static str, &'static [Format])> {
    facts.iter().find(|facts| facts.name == name).map(|facts| (facts.name, facts.formats))
}

// === impl Start ===

impl Start<'_> {
    /// Loads the settings.
    pub fn load(&self) -> Result<Loaded, CliError> {
        self.global.load(self.environment).map(|loaded| self.begin(loaded))
    }

    /// Loads the settings without what the command line says, as the service has them.
    pub fn load_in_force(&self) -> Result<Loaded, CliError> {
        Global::load_in_force(self.environment)
    }

    /// Loads the settings without those that have faults, and returns the faults.
    pub fn load_in_part(&self) -> Result<(Loaded, Vec<ConfigFault>), CliError> {
        let (loaded, faults) = self.global.load_in_part(self.environment)?;
        Ok((self.begin(loaded), faults))
    }

    /// Returns the configuration files.
    pub fn files(&self) -> ConfigFiles {
        self.global.files(self.environment)
    }

    fn begin(&self, loaded: Loaded) -> Loaded {
        let Self { global, environment, verb } = self;
        logging::start(&logging::Logging {
            is_service: verb.is_service(),
            verbose: if global.debug { 2 } else { global.verbose },
            level: global.log_level,
            filter: environment.log_filter.as_deref(),
            settings: (loaded.settings.log_format, loaded.settings.log_level),
            color: global.color.is_on(io::stderr().is_terminal(), environment),
            journal: environment.journal_stream.as_deref(),
        });
        if verb.is_service() || verb.only_shows() { loaded } else { loaded.for_command(environment) }
    }
}
