//! `collect --wait`: waits until the ages of images and of missing pods are known.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::cli::cli_error::{CliError, ErrorKind, warn};
use crate::cli::render::{format, progress};
use crate::daemon::Cycle;
pub(super) use crate::daemon::process::signals::Signal;
use crate::plan::{Scope, wait_for_ages};

/// Added to each wait: the next observation must be later than the age, not at the same time.
const MARGIN: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

/// Observes the node and waits, until nothing is too young to be decided, at most for `limit`. After the first wait there
/// may be another: a pod counts as missing only when a runtime that has just started is trusted.
pub(super) async fn for_ages(cycle: &Cycle, scope: Scope, limit: Duration, stop: &CancellationToken) {
    let mut left = limit;
    loop {
        let (snapshot, plan) = cycle.learn(scope).await;
        let wait = wait_for_ages(&snapshot, &plan);
        if wait.is_zero() || left.is_zero() || stop.is_cancelled() {
            return;
        }
        let bounded = (wait + MARGIN).min(left);
        if bounded < wait {
            warn(&format!("the wait ends after --wait={}; some ages need longer", humantime::format_duration(limit)));
        }
        left -= bounded;
        show(bounded, stop).await;
    }
}

/// Returns the error of a signal during the wait.
pub(super) fn interrupted() -> CliError {
    let message = "interrupted before the end of the wait; nothing was removed";
    CliError::message(ErrorKind::Interrupted(Signal::Interrupt), message)
}

/// Waits, and shows the time left. The bar is drawn on standard error, and only on a terminal.
async fn show(wait: Duration, stop: &CancellationToken) {
    let bar = progress(wait.as_secs(), "{bar:20} {wide_msg}");
    if bar.is_hidden() {
        warn(&format!("waiting {} for the ages of images and missing pods", format::age(wait.as_secs().cast_signed())));
    }
    let mut left = wait;
    while !left.is_zero() && !stop.is_cancelled() {
        bar.set_message(format!("waiting {}s for the ages of images and missing pods", left.as_secs()));
        let step = left.min(SECOND);
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(step) => {}
        }
        left -= step;
        bar.inc(1);
    }
    bar.finish_and_clear();
}
