//! The lines of one watch: each is one event.

use std::time::Duration;

use kube::client::Body;
use tokio::time::{Instant, timeout_at};

use super::KubernetesError;
use super::connection::{piece, unreadable};

/// Far larger than any event: the API accepts objects of about 3 MiB at most.
const LONGEST_LINE_BYTES: usize = 16 << 20;

/// The body of a watch, line by line.
pub(super) struct WatchLines<'a> {
    /// Completes "cannot …" in errors.
    what: &'a str,
    body: Body,
    received: Vec<u8>,
    /// How much of `received` was returned.
    returned: usize,
    limit: Duration,
    dead: Instant,
}

// === impl WatchLines ===

impl<'a> WatchLines<'a> {
    /// Reads a body. It counts as dead if no line ends for `limit`.
    pub(super) fn new(what: &'a str, body: Body, limit: Duration) -> Self {
        Self { what, body, received: Vec::new(), returned: 0, limit, dead: Instant::now() + limit }
    }

    /// Returns the next line. `None` = the server has ended the watch.
    ///
    /// # Errors
    ///
    /// The connection broke, no line ended in time, or a line is endless.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>, KubernetesError> {
        loop {
            let rest = self.received.get(self.returned..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = self.returned..=self.returned + end;
                self.returned = line.end() + 1;
                self.dead = Instant::now() + self.limit;
                return Ok(self.received.get(line));
            }
            if !self.receive().await? {
                return Ok(None);
            }
        }
    }

    /// Returns whether the last line is incomplete.
    pub(super) fn is_cut(&self) -> bool {
        self.returned < self.received.len()
    }

    async fn receive(&mut self) -> Result<bool, KubernetesError> {
        self.received.drain(..self.returned);
        self.returned = 0;
        if self.received.len() > LONGEST_LINE_BYTES {
            return Err(unreadable(self.what, "an endless event".to_owned()));
        }
        let next = timeout_at(self.dead, piece(self.what, &mut self.body)).await;
        let silent = KubernetesError::Silent { what: self.what.to_owned(), seconds: self.limit.as_secs() };
        let Some(piece) = next.map_err(|_| silent)?? else { return Ok(false) };
        self.received.extend_from_slice(piece.as_ref());
        Ok(true)
    }
}
