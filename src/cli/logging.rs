//! What is told on the way, on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use crate::config::LogFormat;

/// Begins to tell. The service tells of each removal; other verbs only of trouble, unless they are asked to say more.
pub(super) fn start(is_service: bool, verbose: u8, format: LogFormat, plain: bool) {
    let level = match verbose + u8::from(is_service) {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // The libraries tell of every frame on the wire.
    let libraries = if level == LevelFilter::TRACE { LevelFilter::DEBUG } else { LevelFilter::WARN };
    // What became of each action is in the table that `collect` ends with.
    let outcomes = if level == LevelFilter::WARN { LevelFilter::OFF } else { level };
    let filter = Targets::new().with_default(libraries).with_target("kubegc", level);
    let filter = filter.with_target("kubegc::record::report", outcomes);
    // Each failed request is told by who made it, once.
    let filter =
        filter.with_target("kube_client", if level == LevelFilter::TRACE { libraries } else { LevelFilter::OFF });
    let color = io::stderr().is_terminal() && !plain;
    let layer = fmt::layer().with_writer(io::stderr).with_ansi(color).with_target(false);
    let layer = match format {
        LogFormat::Json => layer.json().boxed(),
        LogFormat::Text => layer.boxed(),
    };
    // Somebody else may have begun already, as in tests.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}
