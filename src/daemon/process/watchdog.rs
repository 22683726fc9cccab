//! Answers the watchdog of the service manager while the loops make progress.
//!
//! systemd kills a service that does not answer for `WatchdogSec=`. The answers come from the task of the loops: if it
//! is blocked, there are none. If one loop hangs, this module stops them.
//!
//! It covers what no limit covers: a defect of kubegc itself. A pass makes progress whenever something ends that it
//! waits for, and its limit is longer than the longest single wait (`Limits::stall`), so no runtime and no disk can
//! cause a kill.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::notify::Notifier;
use crate::serve::{Progress, Stalled};

/// Answers twice within the limit of the service manager, if it has one. Never returns.
pub async fn run(notifier: &Notifier, progress: &Progress, limit: Option<Duration>) {
    let Some(limit) = limit else { return std::future::pending().await };
    let mut reported = None;
    loop {
        match progress.stalled(Instant::now()) {
            None => {
                notifier.watchdog();
                reported = None;
            }
            Some(stalled) => report(stalled, &mut reported),
        }
        sleep(limit / 2).await;
    }
}

/// Logs each hang once.
fn report(stalled: Stalled, reported: &mut Option<&str>) {
    if reported.replace(stalled.what) != Some(stalled.what) {
        tracing::error!(%stalled, "a loop hangs, so the watchdog of the service manager is not notified");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn there_is_no_answer_while_a_loop_hangs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let answers = || std::iter::from_fn(|| manager.recv(&mut [0; 64]).ok()).count();
        let (notifier, progress) = (Notifier::to(Some(path.as_os_str())), Progress::default());
        let script = async {
            sleep(10 * SECOND + SECOND / 2).await;
            assert_eq!(answers(), 11, "one at the start, and one per second");
            progress.expect("images", Instant::now());
            sleep(10 * SECOND).await;
            assert_eq!(answers(), 0);
            progress.forget("images");
            sleep(10 * SECOND).await;
            assert_eq!(answers(), 10, "it moves again");
        };
        tokio::select! {
            () = run(&notifier, &progress, Some(2 * SECOND)) => {}
            () = script => {}
        }
    }
}
