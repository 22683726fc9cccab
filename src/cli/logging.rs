//! What is told on the way, on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::LevelFilter;

use crate::config::LogFormat;

/// Begins to tell. The service tells of each removal; other verbs only of trouble, unless they are asked to say more.
pub(super) fn start(is_service: bool, verbose: u8, format: LogFormat, plain: bool) {
    let level = match verbose + u8::from(is_service) {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let color = io::stderr().is_terminal() && !plain;
    let log =
        tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_ansi(color).with_target(false);
    // Somebody else may have begun already, as in tests.
    let _ = match format {
        LogFormat::Json => log.json().try_init(),
        LogFormat::Text => log.try_init(),
    };
}
