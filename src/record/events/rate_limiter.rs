//! A token bucket with the numbers of client-go's event filter: 25 events at once, then one in five minutes.

use jiff::Timestamp;

const BURST: u32 = 25;
const SECONDS_A_TOKEN: i64 = 300;

/// The number of writes that are still allowed.
#[derive(Debug)]
pub(super) struct Bucket {
    tokens: u32,
    /// When the last token was added.
    filled: Option<Timestamp>,
}

// === impl Bucket ===

impl Bucket {
    pub(super) fn full() -> Self {
        Self { tokens: BURST, filled: None }
    }

    /// Takes a token, if there is one. A clock that is set back adds none.
    pub(super) fn take(&mut self, now: Timestamp) -> bool {
        let filled = *self.filled.get_or_insert(now);
        let come = now.duration_since(filled).as_secs().max(0) / SECONDS_A_TOKEN;
        let come_at = jiff::SignedDuration::from_secs(come * SECONDS_A_TOKEN);
        self.filled = filled.checked_add(come_at).ok();
        self.tokens = self.tokens.saturating_add(u32::try_from(come).unwrap_or(BURST)).min(BURST);
        let taken = self.tokens.checked_sub(1);
        self.tokens = taken.unwrap_or_default();
        taken.is_some()
    }
}
