//! When a pass takes the account of the image file system.

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::planning::Planned;
use crate::model::Seen;
use crate::plan::{Scope, disk_account};
use crate::store::DiskAccount;

/// The time between two accounts. The store of a large node takes a second to read.
const INTERVAL: SignedDuration = SignedDuration::from_mins(15);

/// The accounts of the passes of a cycle.
#[derive(Default)]
pub(super) struct Accounts {
    is_regular: bool,
    last: Mutex<Option<Timestamp>>,
}

// === impl Accounts ===

impl Accounts {
    /// Creates accounts that are taken regularly.
    pub fn regular() -> Self {
        Self { is_regular: true, ..Self::default() }
    }

    /// Returns whether a pass over these objects takes the account. After a step of the clock it does.
    pub fn is_due(&self, scope: Scope, now: Timestamp) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = last.is_none_or(|last| now < last || now.duration_since(last) >= INTERVAL);
        self.is_regular && scope != Scope::Containers && is_old
    }

    /// Takes the account of what a pass has planned, if it has read the whole store.
    pub fn take(&self, planned: &Planned) -> Option<DiskAccount> {
        let Planned { snapshot, plan, .. } = planned;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.taken_at);
        snapshot.store.iter().find_map(Seen::as_ref)?;
        disk_account(snapshot, plan).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_due_every_quarter_of_an_hour() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let is_due = |accounts: &Accounts, minutes: i64| {
            accounts.is_due(Scope::Images, now + SignedDuration::from_mins(minutes))
        };
        let accounts = Accounts::regular();
        assert!(is_due(&accounts, 0) && !accounts.is_due(Scope::Containers, now));
        *accounts.last.lock().unwrap() = Some(now);
        assert_eq!([-1, 0, 14, 15].map(|minutes| is_due(&accounts, minutes)), [true, false, false, true]);
        assert!(!is_due(&Accounts::default(), 60), "a command takes none for itself");
    }
}
