//! A command: its arguments, on which [`Verb`] is implemented, with all that help, formats, suggestions and the start need to
//! know of it.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::ValueEnum as _;

use super::args::global::Global;
use super::args::kubectl_args::KubectlArgs;
use super::cli_error::{CliError, ErrorKind};
use super::logging;
use super::render::format;
use super::render::output::{Format, Output};
use crate::config::{ConfigFault, ConfigFiles, Environment, Loaded};
use crate::model::PodSourceName;

/// The formats of a list of objects.
pub(in crate::cli) const LIST: &[Format] = &[Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Name];
pub(in crate::cli) const CLUSTER_PLAN: &[Format] =
    &[Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Name, Format::Csv];
pub(in crate::cli) const HISTORY: &[Format] =
    &[Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Name, Format::Crictl];
/// The formats of a list of what has no name.
pub(in crate::cli) const ROWS: &[Format] = &[Format::Table, Format::Wide, Format::Json, Format::Yaml];
/// The formats of a text about one thing.
pub(in crate::cli) const TEXT: &[Format] = &[Format::Table, Format::Json, Format::Yaml];
/// The formats of a document for programs.
pub(in crate::cli) const DOCUMENT: &[Format] = &[Format::Json, Format::Yaml];
/// What all commands have in common that read files only.
pub(in crate::cli) const READS_FILES: VerbFacts = VerbFacts {
    name: "",
    examples: &[],
    formats: &[],
    statuses: &[0, 1, 2],
    words: &[],
    is_service: false,
    only_shows: false,
};
/// What all commands have in common that show settings.
pub(in crate::cli) const SHOWS: VerbFacts = VerbFacts { only_shows: true, ..READS_FILES };
/// What all commands have in common that look at the node or at a cluster.
pub(in crate::cli) const LOOKS: VerbFacts = VerbFacts { statuses: &[0, 1, 2, 3, 130], ..READS_FILES };

/// A word of the command line: a command, or a group of commands.
pub(in crate::cli) trait Word {
    /// Returns what is known of each command.
    fn all() -> Vec<&'static VerbFacts>
    where
        Self: Sized;

    /// Returns the command that the command line has.
    fn chosen(&self) -> Chosen<'_>;
}

/// The command of a command line.
pub(in crate::cli) struct Chosen<'a> {
    pub verb: &'a dyn Verb,
    pub facts: &'static VerbFacts,
    /// The flags that select a cluster, of a command that has them.
    pub kubectl: Option<&'a KubectlArgs>,
}

/// A command.
pub(in crate::cli) trait Verb {
    /// Returns what is known of the command without its arguments.
    fn facts() -> &'static VerbFacts
    where
        Self: Sized;

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError>;

    /// Returns the name of the command with a flag that decides the output formats, and those; `None` = none does.
    fn formats(&self) -> Option<(&'static str, &'static [Format])> {
        None
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
    /// Whether it is a service, which waits for the runtime and logs for a service manager.
    pub is_service: bool,
    /// Whether it only shows settings, and does not look at the node as a command does.
    pub only_shows: bool,
}

/// What a command needs to begin: it loads the settings, and starts the log by them.
pub(in crate::cli) struct Start<'a> {
    pub global: &'a Global,
    pub environment: &'a Environment,
    pub facts: &'static VerbFacts,
    pub kubectl: &'a KubectlArgs,
}

/// Declares the commands of a group, each with its arguments. The type of a command is boxed: there is one of it.
macro_rules! verbs {
    ($(#[$of_group:meta])* $group:ident { $($(#[$attribute:meta])* $name:ident($args:ty)),* $(,)? }) => {
        $(#[$of_group])*
        #[derive(Debug, clap::Subcommand)]
        enum $group {
            $($(#[$attribute])* $name(Box<$args>)),*
        }

        impl $crate::cli::verb::Word for $group {
            fn all() -> Vec<&'static $crate::cli::verb::VerbFacts> {
                let all = [$($(#[$attribute])* <$args as $crate::cli::verb::Word>::all()),*];
                all.into_iter().flatten().collect()
            }

            fn chosen(&self) -> $crate::cli::verb::Chosen<'_> {
                match self {
                    $($(#[$attribute])* Self::$name(args) => args.chosen()),*
                }
            }
        }
    };
}
pub(in crate::cli) use verbs;

// === impl Word ===

impl<V: Verb> Word for V {
    fn all() -> Vec<&'static VerbFacts> {
        vec![V::facts()]
    }

    fn chosen(&self) -> Chosen<'_> {
        Chosen { verb: self, facts: V::facts(), kubectl: None }
    }
}

// === impl Chosen ===

impl Chosen<'_> {
    /// Returns an error if the command does not have the format: a script that requested names and got a table would go on with
    /// wrong words.
    pub fn check_format(&self, wanted: Option<Format>) -> Result<(), CliError> {
        let (command, known) = self.verb.formats().unwrap_or((self.facts.name, self.facts.formats));
        let Some(wanted) = wanted.filter(|wanted| !known.contains(wanted)) else { return Ok(()) };
        let name =
            |format: &Format| format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let message = format!("`kubegc {command}` has no output format {:?}", name(&wanted));
        let known: Vec<_> = known.iter().map(name).collect();
        let hint =
            if known.is_empty() { "omit -o".to_owned() } else { format!("-o accepts {} here", format::list(&known)) };
        Err(CliError::message(ErrorKind::Usage, message).hint(hint))
    }
}

// === impl Start ===

impl Start<'_> {
    pub fn load(&self) -> Result<Loaded, CliError> {
        self.global.load(self.environment).map(|loaded| self.begin(loaded))
    }

    /// Loads the settings without what the command line says, as the service has them.
    pub fn load_in_force(&self) -> Result<Loaded, CliError> {
        Global::load_in_force(self.environment)
    }

    /// Loads the settings without those that have faults, and returns the faults. With faults the pods are those of the runtime: what is
    /// left of the settings could send a credential where it is not to be sent.
    pub fn load_in_part(&self) -> Result<(Loaded, Vec<ConfigFault>), CliError> {
        let (mut loaded, faults) = self.global.load_in_part(self.environment)?;
        if !faults.is_empty() {
            loaded.settings.pods.sources = [PodSourceName::Runtime].into();
        }
        Ok((self.begin(loaded), faults))
    }

    pub fn files(&self) -> ConfigFiles {
        self.global.files(self.environment)
    }

    fn begin(&self, loaded: Loaded) -> Loaded {
        let Self { global, environment, facts, .. } = self;
        logging::start(&logging::Logging {
            is_service: facts.is_service,
            verbose: if global.debug { 2 } else { global.verbose },
            level: global.log_level,
            filter: environment.log_filter.as_deref(),
            settings: (loaded.settings.log_format, loaded.settings.log_level),
            color: global.color.is_on(io::stderr().is_terminal(), environment),
            journal: environment.journal_stream.as_deref(),
        });
        if facts.is_service || facts.only_shows { loaded } else { loaded.for_command(environment) }
    }
}
