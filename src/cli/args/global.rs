//! Flags that every command accepts.
//!
//! The flags for settings are generated from the table of keys. So no flag is missing here, and no flag differs in meaning
//! from its key in a file. The help of a command does not repeat them: `kubegc config explain` lists them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use clap_complete::ArgValueCompleter;

use crate::cli::cli_error::CliError;
use crate::cli::render::output::{Color, Format};
use crate::cli::verbs::completions;
use crate::config::{
    ConfigError, ConfigFault, ConfigFiles, Environment, KEYS, Key, Loaded, LogLevel, Typed, load, load_in_part,
    load_upon,
};
use crate::model::AgentSettings;

/// Flags that every verb takes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of every verb")]
pub struct Global {
    /// Configuration file [default: /etc/kubegc/kubegc.toml] [env: `KUBEGC_CONFIG`]
    ///
    /// The files in the directory conf.d beside it are read too.
    #[arg(short, long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read defaults from this KubeletConfiguration file
    ///
    /// It provides thresholds, ages, the sockets and the log root. The files in FILE.d are read too.
    #[arg(long, global = true, value_name = "FILE")]
    pub kubelet_config: Option<PathBuf>,
    /// Directory with drop-in files of the KubeletConfiguration, as the kubelet's --config-dir [default: FILE.d]
    ///
    /// It needs no --kubelet-config: the kubelets of k3s and RKE2 have only such a directory.
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub kubelet_config_dir: Option<PathBuf>,
    /// Set a configuration key, as `images.low_threshold_percent=60` (repeatable)
    #[arg(long, global = true, value_name = "KEY=VALUE", add = ArgValueCompleter::new(completions::settings))]
    pub set: Vec<String>,
    /// Output format
    #[arg(short = 'o', long = "output", global = true, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Print tables without a header
    #[arg(long, global = true)]
    pub no_headers: bool,
    /// Do not shorten names on a terminal
    #[arg(long, global = true)]
    pub no_trunc: bool,
    /// When to use color; auto respects `NO_COLOR`
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: Color,
    /// Log more to standard error (-vv for debug)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Log messages of this level and above; overrides -v and `RUST_LOG`
    #[arg(long, global = true, value_enum, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// Log debug messages, as -vv
    #[arg(short = 'D', long, global = true)]
    pub debug: bool,
    #[command(flatten)]
    overrides: Overrides,
}

#[derive(Debug, Default)]
struct Overrides(Vec<(&'static str, String)>);

// === impl Global ===

impl Global {
    /// Loads the settings from all sources.
    pub fn load(&self, environment: &Environment) -> Result<Loaded, CliError> {
        Ok(load(&self.typed(), environment)?)
    }

    /// Loads the settings without what the command line says, as the service has them.
    pub fn load_in_force(environment: &Environment) -> Result<Loaded, CliError> {
        Ok(load(&Typed::default(), environment)?)
    }

    /// Loads what the command line says of the settings of an agent.
    pub fn load_upon(&self, agent: &AgentSettings, environment: &Environment) -> Result<Loaded, CliError> {
        Ok(load_upon(agent, &self.typed(), environment)?)
    }

    /// Loads the settings without those that have faults, and returns these faults too. A fault of the command line is an error.
    pub fn load_in_part(&self, environment: &Environment) -> Result<(Loaded, Vec<ConfigFault>), CliError> {
        match load(&self.typed(), environment) {
            Ok(loaded) => Ok((loaded, Vec::new())),
            Err(error) if error.faults.iter().any(|fault| fault.origin.is_command_line()) => Err(error.into()),
            Err(ConfigError { faults }) => Ok((load_in_part(&self.typed(), environment), faults)),
        }
    }

    /// Looks at the configuration files.
    pub fn files(&self, environment: &Environment) -> ConfigFiles {
        ConfigFiles::find(&self.typed(), environment)
    }

    fn typed(&self) -> Typed {
        Typed {
            config: self.config.clone(),
            kubelet_config: self.kubelet_config.clone(),
            kubelet_config_dir: self.kubelet_config_dir.clone(),
            flags: self.overrides.0.clone(),
            set: self.set.clone(),
        }
    }

    /// Adds the `--set` flags before the command to those after it.
    ///
    /// If a flag is given both before and after the command, clap keeps only those after it. `--set` may be repeated,
    /// so this would lose settings without a message.
    #[must_use]
    pub fn with_set_before_verb(mut self, words: impl IntoIterator<Item = OsString>) -> Self {
        let command = Self::augment_args(Command::new("kubegc")).allow_external_subcommands(true);
        let command = command.disable_help_flag(true).disable_version_flag(true).ignore_errors(true);
        let before = command.try_get_matches_from(words).ok();
        let before = before.as_ref().and_then(|matches| matches.get_many::<String>("set")).into_iter().flatten();
        let before: Vec<String> = before.cloned().collect();
        if self.set != before {
            self.set.splice(0..0, before);
        }
        self
    }
}

// === impl Overrides ===

impl Args for Overrides {
    fn augment_args(command: Command) -> Command {
        KEYS.iter().filter_map(argument).fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Overrides {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut overrides = Self::default();
        overrides.update_from_arg_matches(matches)?;
        Ok(overrides)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let typed = |flag: &'static str| Some((flag, matches.get_one::<String>(flag)?.clone()));
        self.0 = KEYS.iter().filter_map(Key::flag).filter_map(typed).collect();
        Ok(())
    }
}

fn argument(key: &'static Key) -> Option<Arg> {
    let (flag, aliases) = key.flags.split_first()?;
    let argument = Arg::new(*flag)
        .long(*flag)
        .visible_aliases(aliases.iter().copied())
        .help(format!("{} [{}]", key.summary(), key.name))
        .value_name("VALUE")
        .allow_negative_numbers(true)
        .hide_short_help(true)
        .hide_long_help(true)
        .global(true);
    Some(match key.short() {
        Some(short) => argument.short(short),
        None => argument,
    })
}
