//! When an agent writes its NodeDisk.

use std::time::Duration;

use super::node_disk::NodeDiskCondition;
use super::node_status::NodeStatus;

/// A changed state is written at once, unless the last write was this short a time ago.
const STATE_GAP: Duration = Duration::from_secs(30);
/// Changed measures are written at most this often.
const MEASURES_GAP: Duration = Duration::from_mins(5);
/// An agent without a change is heard this often. One that was not heard for 15 minutes is a finding.
const HEARTBEAT: Duration = Duration::from_mins(10);
/// Reclaimable bytes have changed if it is by this much.
const CHANGED_BYTES: u64 = 1 << 30;

// === impl NodeStatus ===

impl NodeStatus {
    /// Returns whether this status is to be written in place of the one that was written so long ago.
    pub fn is_due(&self, written: Option<(&Self, Duration)>) -> bool {
        let Some((written, age)) = written else { return true };
        age >= HEARTBEAT
            || age >= STATE_GAP && self.has_other_state(written)
            || age >= MEASURES_GAP && self.has_other_measures(written)
    }

    fn has_other_state(&self, other: &Self) -> bool {
        let conditions = |of: &Self| of.conditions.iter().map(NodeDiskCondition::state).collect::<Vec<_>>();
        let state = |of: &Self| (of.version.clone(), of.mode.clone(), of.policies.clone(), of.policy_faults.clone());
        let has_collected = self.has_collected() && !other.has_collected(); // a rollout waits for it
        has_collected
            || state(self) != state(other)
            || self.removals != other.removals
            || conditions(self) != conditions(other)
    }

    fn has_other_measures(&self, other: &Self) -> bool {
        let used = |of: &Self| of.disks.iter().map(|disk| (disk.holds.clone(), disk.used_percent)).collect::<Vec<_>>();
        let is_short = |of: &Self| of.shortfall_bytes > 0;
        used(self) != used(other)
            || is_short(self) != is_short(other)
            || self.reclaimable_bytes.abs_diff(other.reclaimable_bytes) >= CHANGED_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    use crate::fleet::node_status::tests::status;
    use crate::plan::PassCounts;

    #[test]
    fn a_state_is_written_at_once_and_a_measure_every_five_minutes() {
        let written = status(70, None);
        let is_due = |next: NodeStatus, seconds| next.is_due(Some((&written, Duration::from_secs(seconds))));
        assert!(status(70, None).is_due(None));
        assert_eq!([29, 30].map(|age| is_due(status(70, Some("paused")), age)), [false, true]);
        assert_eq!([299, 300].map(|age| is_due(status(71, None), age)), [false, true]);
        assert_eq!([599, 600].map(|age| is_due(status(70, None), age)), [false, true]);
        let reclaimable = |bytes| NodeStatus { reclaimable_bytes: bytes, ..status(70, None) };
        assert_eq!([CHANGED_BYTES - 1, CHANGED_BYTES].map(|bytes| is_due(reclaimable(bytes), 300)), [false, true]);
        let pass = PassCounts { scope: "images".to_owned(), at: Some(Timestamp::UNIX_EPOCH), ..PassCounts::default() };
        let mut collected = NodeStatus { passes: vec![pass], ..status(70, None) };
        collected.finish(None, Timestamp::UNIX_EPOCH);
        assert!(!written.has_collected() && is_due(collected, 30), "a rollout waits for it");
        let failed = NodeStatus { conditions: Vec::new(), ..status(70, None) };
        assert!(is_due(failed, 60));
    }
}
