//! Log messages on standard error.

use std::io;

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use crate::config::LogFormat;
use crate::record;

/// The level of `--log-level`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum LogLevel {
    /// Errors
    Error,
    /// Errors and warnings
    Warn,
    /// Also each removal and each change of state
    Info,
    /// Also each kept object
    Debug,
    /// Also each call
    Trace,
}

/// Which messages to log, and how.
pub(super) struct Logging<'a> {
    /// Whether the command is a service.
    pub is_service: bool,
    /// The number of `-v`.
    pub verbose: u8,
    /// `--log-level`.
    pub level: Option<LogLevel>,
    /// `RUST_LOG`, as `debug` or `kubegc=debug,kube=info`.
    pub filter: Option<&'a str>,
    /// The format of the messages.
    pub format: LogFormat,
    /// Whether to use color.
    pub color: bool,
}

/// Starts logging. By default the service logs each removal, and other commands log warnings only. `RUST_LOG` replaces
/// the default, and flags replace both.
pub(super) fn start(logging: &Logging) {
    let Logging { is_service, verbose, format, color, .. } = *logging;
    let from_environment = logging.filter.filter(|_| verbose == 0 && logging.level.is_none());
    let filter = from_environment.and_then(|filter| filter.parse::<Targets>().ok());
    let level = logging.level.map_or_else(|| counted(verbose, is_service), LogLevel::filter);
    let filter = filter.unwrap_or_else(|| targets(level));
    let layer = fmt::layer().with_writer(io::stderr).with_ansi(color).with_target(false);
    let layer = match format {
        LogFormat::Json => layer.json().boxed(),
        LogFormat::Text => layer.boxed(),
    };
    // Logging may be initialized already, as in tests.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}

/// Returns the level for a number of `-v`.
fn counted(verbose: u8, is_service: bool) -> LevelFilter {
    match verbose + u8::from(is_service) {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Returns the levels of kubegc and of its libraries.
fn targets(level: LevelFilter) -> Targets {
    // At a more verbose level the libraries log every network frame.
    let libraries = if level == LevelFilter::TRACE { LevelFilter::DEBUG } else { LevelFilter::WARN };
    // The table at the end of `collect` shows the result of each action.
    let outcomes = if level <= LevelFilter::WARN { LevelFilter::OFF } else { level };
    let filter = Targets::new().with_default(libraries).with_target("kubegc", level);
    let filter = filter.with_target(record::OUTCOMES, outcomes);
    // The caller of a failed request logs it once.
    filter.with_target("kube_client", if level == LevelFilter::TRACE { libraries } else { LevelFilter::OFF })
}

// === impl LogLevel ===

impl LogLevel {
    fn filter(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}
