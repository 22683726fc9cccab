//! Log messages on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use crate::config::LogFormat;
use crate::record;

/// Starts logging. By default the service logs each removal, and other commands log warnings only.
pub(super) fn start(is_service: bool, verbose: u8, format: LogFormat, plain: bool) {
    let level = match verbose + u8::from(is_service) {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // At a more verbose level the libraries log every network frame.
    let libraries = if level == LevelFilter::TRACE { LevelFilter::DEBUG } else { LevelFilter::WARN };
    // The table at the end of `collect` shows the result of each action.
    let outcomes = if level == LevelFilter::WARN { LevelFilter::OFF } else { level };
    let filter = Targets::new().with_default(libraries).with_target("kubegc", level);
    let filter = filter.with_target(record::OUTCOMES, outcomes);
    // The caller of a failed request logs it once.
    let filter =
        filter.with_target("kube_client", if level == LevelFilter::TRACE { libraries } else { LevelFilter::OFF });
    let color = io::stderr().is_terminal() && !plain;
    let layer = fmt::layer().with_writer(io::stderr).with_ansi(color).with_target(false);
    let layer = match format {
        LogFormat::Json => layer.json().boxed(),
        LogFormat::Text => layer.boxed(),
    };
    // Logging may be initialized already, as in tests.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}
