//! Log messages on standard error, and in the journal of systemd.

mod journal;

use std::fmt::Debug;
use std::io;
use std::sync::OnceLock;

use clap::ValueEnum as _;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use self::journal::Journal;
use crate::config::{LogFormat, LogLevel};
use crate::model::{cut_text, printable_text};
use crate::record;

/// The longest value in the log, in characters.
const LONGEST: usize = 4096;

/// Which messages to log, and how.
pub(super) struct Logging<'a> {
    /// Whether the command is a service.
    pub is_service: bool,
    pub verbose: u8,
    /// `--log-level`.
    pub level: Option<LogLevel>,
    /// `RUST_LOG`, as `debug` or `kubegc=debug,kube=info`.
    pub filter: Option<&'a str>,
    /// `log.format` and `log.level`.
    pub settings: (LogFormat, LogLevel),
    pub color: bool,
    /// `JOURNAL_STREAM`.
    pub journal: Option<&'a str>,
}

/// The filter in force, once logging has started.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Starts logging, or changes the level if it has started. By default the service logs each removal, and other commands
/// log warnings only. `RUST_LOG` replaces the default, and flags replace both.
pub(super) fn start(logging: &Logging) {
    let filter = filter(logging);
    if let Some(in_force) = FILTER.get() {
        // It fails only if logging has ended.
        let _ = in_force.reload(filter);
        return;
    }
    let journal = logging.journal.and_then(Journal::of_service);
    let layer = match (logging.settings.0, journal) {
        (LogFormat::Json, _) => fmt::layer().with_writer(io::stderr).with_target(false).json().boxed(),
        (LogFormat::Text, Some(journal)) => journal.boxed(),
        (LogFormat::Text, None) => text(io::stderr, logging.color).boxed(),
    };
    let (filter, handle) = reload::Layer::new(filter);
    // Logging may be initialized already, as in tests.
    if tracing_subscriber::registry().with(layer.with_filter(filter)).try_init().is_ok() {
        let _ = FILTER.set(handle);
    }
}

/// Writes each event as one line.
fn text<W>(writer: W, color: bool) -> impl Layer<Registry>
where
    W: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let fields = fmt::format::debug_fn(|writer, field, value| match field.name() {
        "message" => write!(writer, "{}", shown(value)),
        name => write!(writer, "{name}={}", shown(value)),
    });
    fmt::layer().with_writer(writer).with_ansi(color).with_target(false).fmt_fields(fields.delimited(" "))
}

/// Returns a value as text on one line. A tenant chooses the names of objects, and writes no line of the log (G5).
fn shown(value: &dyn Debug) -> String {
    printable_text(&cut_text(&format!("{value:?}"), LONGEST))
}

fn filter(logging: &Logging) -> Targets {
    let from_environment = logging.filter.filter(|_| logging.verbose == 0 && logging.level.is_none());
    let filter = from_environment.and_then(|filter| filter.parse::<Targets>().ok());
    filter.unwrap_or_else(|| targets(level_filter(logging.level.unwrap_or_else(|| default_level(logging)))))
}

/// Returns the level of the settings for a service, else that of warnings, and one level more for each `-v`.
fn default_level(logging: &Logging) -> LogLevel {
    let base = if logging.is_service { logging.settings.1 } else { LogLevel::Warn };
    let levels = LogLevel::value_variants().iter().skip_while(|level| **level < base);
    levels.take(usize::from(logging.verbose) + 1).last().copied().unwrap_or(base)
}

/// Returns the levels of kubegc and of its libraries.
fn targets(level: LevelFilter) -> Targets {
    // At a more verbose level the libraries log every network frame. `RUST_LOG` selects that.
    let libraries = LevelFilter::WARN;
    // The table at the end of `collect` shows the result of each action.
    let outcomes = if level <= LevelFilter::WARN { LevelFilter::OFF } else { level };
    let filter = Targets::new().with_default(libraries).with_target("kubegc", level);
    let filter = filter.with_target(record::OUTCOMES, outcomes);
    // The caller of a failed request logs it once.
    filter.with_targets(["kube_client", "rustls_platform_verifier"].map(|library| (library, LevelFilter::OFF)))
}

fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests;
