//! Signal handling: the first signal starts a graceful shutdown, the second aborts.
//!
//! After SIGTERM or SIGINT, the actions in progress are finished and recorded, and no other begins: the running code
//! checks the [`CancellationToken`]. A second SIGTERM or SIGINT ends the process at once. SIGHUP requests a reload of the
//! settings. SIGUSR1, SIGUSR2 and SIGALRM, which would end the process by default, are logged and have no other effect.
//!
//! This module spawns no task. The owner of the work awaits [`Signals::aborted`] in parallel to it. Signals are only
//! handled while it is awaited:
//!
//! ```ignore
//! let (signals, stop, reload) = signals::listen()?;
//! tokio::select! {
//!     result = service(stop, reload) => result,
//!     signal = signals.aborted() => exit(signal.exit_code()),
//! }
//! ```

use std::io;
use std::sync::{Arc, OnceLock};

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The signals of this process since [`listen`].
#[derive(Debug)]
pub struct Signals {
    terminate: Stream,
    interrupt: Stream,
    hangup: Stream,
    user1: Stream,
    user2: Stream,
    alarm: Stream,
    stop: CancellationToken,
    reload: Reload,
    first: Arc<OnceLock<Signal>>,
}

/// The requests to reload the settings. Clones share them. Several requests since the last check count as one.
#[derive(Clone, Debug, Default)]
pub struct Reload(Arc<Notify>);

/// A signal that ends the process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Signal {
    /// SIGTERM, from the service manager.
    Terminate,
    /// SIGINT, from a terminal.
    Interrupt,
}

/// Installs the signal handlers. From then on, the signals no longer have their default effect, until the process ends.
///
/// # Errors
/// The system refuses a handler, or no tokio runtime is running.
pub fn listen() -> io::Result<(Signals, CancellationToken, Reload)> {
    let (stop, reload) = (CancellationToken::new(), Reload::default());
    let signals = Signals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        hangup: signal(SignalKind::hangup())?,
        user1: signal(SignalKind::user_defined1())?,
        user2: signal(SignalKind::user_defined2())?,
        alarm: signal(SignalKind::alarm())?,
        stop: stop.clone(),
        reload: reload.clone(),
        first: Arc::default(),
    };
    Ok((signals, stop, reload))
}

// === impl Signals ===

impl Signals {
    /// Returns the place of the signal that requests the shutdown.
    pub fn first(&self) -> Arc<OnceLock<Signal>> {
        Arc::clone(&self.first)
    }

    /// Handles signals as they arrive. The first SIGTERM or SIGINT requests the shutdown. Returns at the second one.
    pub async fn aborted(mut self) -> Signal {
        let first = self.end().await;
        let _ = self.first.set(first);
        tracing::info!(signal = first.name(), "finishing the actions in progress; a second signal aborts");
        self.stop.cancel();
        let second = self.end().await;
        tracing::warn!(signal = second.name(), "aborting");
        second
    }

    /// Waits for SIGTERM or SIGINT, and forwards SIGHUP as a reload request.
    async fn end(&mut self) -> Signal {
        loop {
            tokio::select! {
                Some(()) = self.terminate.recv() => return Signal::Terminate,
                Some(()) = self.interrupt.recv() => return Signal::Interrupt,
                Some(()) = self.hangup.recv() => {
                    tracing::info!("SIGHUP received: reloading the settings");
                    self.reload.request();
                }
                Some(()) = self.user1.recv() => without_effect("SIGUSR1"),
                Some(()) = self.user2.recv() => without_effect("SIGUSR2"),
                Some(()) = self.alarm.recv() => without_effect("SIGALRM"),
                else => return std::future::pending().await,
            }
        }
    }
}

fn without_effect(signal: &str) {
    tracing::warn!(signal, "this signal has no effect; SIGHUP reloads the settings");
}

// === impl Signal ===

impl Signal {
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }

    /// Returns the exit code of a process that this signal ended: 128 plus its number, as in shells.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Terminate => 128 + 15,
            Self::Interrupt => 128 + 2,
        }
    }
}

// === impl Reload ===

impl Reload {
    pub fn request(&self) {
        self.0.notify_one();
    }

    /// Waits for a request whose `reload` returns a result.
    pub async fn accepted<T>(&self, mut reload: impl FnMut() -> Option<T>) -> T {
        loop {
            self.requested().await;
            if let Some(reloaded) = reload() {
                return reloaded;
            }
        }
    }

    pub async fn requested(&self) {
        self.0.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nix::sys::signal::{Signal as Raw, raise};
    use tokio::sync::{Mutex, MutexGuard};
    use tokio::task::{JoinHandle, yield_now};
    use tokio::time::timeout;

    use super::*;

    /// Signals reach every test of the process, so one test at a time raises them.
    async fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::const_new(());
        ALONE.lock().await
    }

    async fn soon<T>(future: impl Future<Output = T>) -> T {
        timeout(Duration::from_mins(1), future).await.expect("nothing came for a minute")
    }

    fn start() -> (JoinHandle<Signal>, CancellationToken, Reload) {
        let (signals, stop, reload) = listen().unwrap();
        (tokio::spawn(signals.aborted()), stop, reload)
    }

    #[tokio::test]
    async fn the_first_signal_stops_and_the_second_aborts() {
        let _alone = alone().await;
        for (first, second, aborted) in [
            (Raw::SIGTERM, Raw::SIGTERM, Signal::Terminate),
            (Raw::SIGTERM, Raw::SIGINT, Signal::Interrupt),
            (Raw::SIGINT, Raw::SIGTERM, Signal::Terminate),
        ] {
            let (abort, stop, _reload) = start();
            let other = stop.clone();
            assert!(!stop.is_cancelled());
            raise(first).unwrap();
            soon(stop.cancelled()).await;
            assert!(stop.is_cancelled() && other.is_cancelled());
            soon(other.cancelled()).await;
            assert!(!abort.is_finished(), "one {first} does not abort");
            raise(second).unwrap();
            assert_eq!(soon(abort).await.unwrap(), aborted);
        }
    }

    #[tokio::test]
    async fn a_signal_before_the_first_wait_is_not_lost() {
        let _alone = alone().await;
        let (signals, stop, _reload) = listen().unwrap();
        raise(Raw::SIGTERM).unwrap();
        yield_now().await;
        let abort = tokio::spawn(signals.aborted());
        soon(stop.cancelled()).await;
        abort.abort();
    }

    #[tokio::test]
    async fn a_hangup_requests_a_reload_and_stops_no_pass() {
        let _alone = alone().await;
        let (abort, stop, reload) = start();
        for _ in 0..3 {
            raise(Raw::SIGHUP).unwrap();
            soon(reload.requested()).await;
        }
        assert!(!stop.is_cancelled());
        raise(Raw::SIGTERM).unwrap();
        soon(stop.cancelled()).await;
        raise(Raw::SIGHUP).unwrap();
        soon(reload.requested()).await;
        assert!(!abort.is_finished(), "a hangup is no second signal");
        abort.abort();
    }

    #[tokio::test]
    async fn unanswered_hangups_count_as_one_reload_request() {
        let _alone = alone().await;
        let (abort, stop, reload) = start();
        for _ in 0..5 {
            raise(Raw::SIGHUP).unwrap();
            yield_now().await;
        }
        raise(Raw::SIGTERM).unwrap();
        soon(stop.cancelled()).await;
        soon(reload.requested()).await;
        assert!(timeout(Duration::ZERO, reload.requested()).await.is_err());
        abort.abort();
    }

    #[test]
    fn an_aborted_process_exits_as_shells_expect() {
        assert_eq!((Signal::Terminate.exit_code(), Signal::Interrupt.exit_code()), (143, 130));
    }
}
