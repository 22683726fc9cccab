//! The lines of one watch: each is one event.

use std::time::Duration;

use kube::client::Body;
use tokio::time::{Instant, timeout_at};

use super::connection::piece;
use crate::kubernetes::Cause;

/// Far larger than any event: the API accepts objects of about 3 MiB at most.
const LONGEST_LINE_BYTES: usize = 16 << 20;

/// Nearly all events have at most this size.
const ORDINARY_LINE_BYTES: usize = 16 << 10;

/// How much longer than requested a watch may last. Then it is cut off: a server that never ends a watch must not
/// hold it for ever (G5).
pub(in crate::kubernetes) const SLACK: Duration = Duration::from_secs(30);

/// The body of a watch, line by line.
pub(in crate::kubernetes) struct WatchLines {
    body: Body,
    received: Vec<u8>,
    /// How much of `received` was returned.
    returned: usize,
    silence: Duration,
    dead: Instant,
    /// When the watch is cut off.
    end: Instant,
    is_cut: bool,
}

// === impl WatchLines ===

impl WatchLines {
    /// Reads a body. It counts as dead if no line ends for `silence`. `lasts` is how long it was requested for.
    pub(in crate::kubernetes) fn new(body: Body, silence: Duration, lasts: Duration) -> Self {
        let now = Instant::now();
        let (dead, end) = (now + silence, now + lasts + SLACK);
        Self { body, received: Vec::new(), returned: 0, silence, dead, end, is_cut: false }
    }

    /// Returns the next line. `None` = the server has ended the watch, or has not although it lasts too long.
    ///
    /// # Errors
    ///
    /// The connection broke, no line ended in time, or a line is endless.
    pub(in crate::kubernetes) async fn next(&mut self) -> Result<Option<&[u8]>, Cause> {
        loop {
            let rest = self.received.get(self.returned..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = self.returned..=self.returned + end;
                self.returned = line.end() + 1;
                self.dead = Instant::now() + self.silence;
                return Ok(self.received.get(line));
            }
            if !self.receive().await? {
                return Ok(None);
            }
        }
    }

    /// Returns whether the server has not ended the watch in order: the last line is incomplete, or it lasted too long.
    pub(in crate::kubernetes) fn is_cut(&self) -> bool {
        self.is_cut || self.returned < self.received.len()
    }

    async fn receive(&mut self) -> Result<bool, Cause> {
        self.received.drain(..self.returned);
        self.returned = 0;
        if self.received.is_empty() {
            // One large event must not cost its size as long as the watch lasts.
            self.received.shrink_to(ORDINARY_LINE_BYTES);
        }
        if self.received.len() > LONGEST_LINE_BYTES {
            return Err(Cause::Unreadable("an endless event".to_owned()));
        }
        let next = timeout_at(self.dead.min(self.end), piece(&mut self.body)).await;
        let next = match next {
            Ok(next) => next?,
            Err(_) if self.dead <= self.end => return Err(Cause::Silent(self.silence)),
            Err(_) => {
                self.is_cut = true;
                return Ok(false);
            }
        };
        let Some(piece) = next else { return Ok(false) };
        self.received.extend_from_slice(piece.as_ref());
        Ok(true)
    }
}
