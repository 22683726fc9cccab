//! What the parts of one life share: its log, its first fault, its clock, and the troubles that come.

use std::cell::Cell;
use std::fmt::{Display, Write as _};
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::script::{KINDS, Reply, Served, Serving, Sort};

thread_local! {
    /// The beginning of the life of this thread, and by how many seconds its wall clock is wrong.
    static CLOCK: Cell<Option<(Instant, i64)>> = const { Cell::new(None) };
}

/// The stage of a life. All clones are one.
#[derive(Clone)]
pub(super) struct Stage(Arc<Mutex<Acts>>);

/// What happens to the process.
pub(super) struct Acts {
    begun: Instant,
    pub(super) log: String,
    pub(super) fault: Option<String>,
    pub(super) served: Served,
    pub(super) troubles: Vec<(Sort, Reply)>,
    /// After so many requests the process is killed, at one that has an effect or not.
    pub(super) kill: Option<(usize, bool)>,
    pub(super) killed: Arc<Notify>,
    /// The number of all requests.
    pub(super) requests: usize,
}

// === impl Stage ===

impl Stage {
    pub(super) fn new() -> Self {
        CLOCK.set(Some((Instant::now(), 0)));
        let (log, fault, troubles, kill, killed, requests) = Default::default();
        let served = [Serving::Works; KINDS.len()];
        Self(Arc::new(Mutex::new(Acts { begun: Instant::now(), log, fault, served, troubles, kill, killed, requests })))
    }

    pub(super) fn acts(&self) -> MutexGuard<'_, Acts> {
        self.0.lock().unwrap()
    }

    pub(super) fn log(&self, line: impl Display) {
        let acts = &mut *self.acts();
        let at = acts.begun.elapsed();
        let _ = writeln!(acts.log, "{:9.3} {line}", at.as_secs_f64());
    }

    /// Records a fault of the process. Only the first one counts.
    pub(super) fn fault(&self, fault: String) {
        self.log(format_args!("FAULT: {fault}"));
        self.acts().fault.get_or_insert(fault);
    }

    /// Returns the next trouble of a request.
    pub(super) fn trouble(&self, sort: Sort) -> Option<Reply> {
        let troubles = &mut self.acts().troubles;
        let at = troubles.iter().position(|(of, _)| *of == sort)?;
        Some(troubles.remove(at).1)
    }
}

/// Moves the wall clock of this life.
pub(super) fn jump(seconds: i64) {
    CLOCK.set(CLOCK.get().map(|(begun, skew)| (begun, skew + seconds)));
}

/// The wall clock of this life.
pub(super) fn clock() -> Timestamp {
    let (begun, skew) = CLOCK.get().unwrap();
    let since = SignedDuration::try_from(begun.elapsed()).unwrap() + SignedDuration::from_secs(skew);
    "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap() + since
}
