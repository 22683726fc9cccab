//! The log, on standard error.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use super::Global;
use crate::config::{Environment, LogFormat};

/// Begins to log what is at least as important as the flags say; `quiet` is how much without them. Of libraries only
/// warnings, unless all is wanted.
pub(super) fn begin(global: &Global, quiet: LevelFilter, format: LogFormat, environment: &Environment) {
    let verbose = if global.debug { 2 } else { global.verbose };
    let level = match verbose {
        0 => quiet,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let others = if level == LevelFilter::TRACE { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let filter = Targets::new().with_default(others).with_target("kubegc", level);
    let layer = match format {
        LogFormat::Json => fmt::layer().json().with_writer(io::stderr).boxed(),
        LogFormat::Text => {
            let color = io::stderr().is_terminal() && !environment.plain;
            fmt::layer().with_ansi(color).with_writer(io::stderr).boxed()
        }
    };
    // Whoever logs already goes on; only a test may call this twice.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}
