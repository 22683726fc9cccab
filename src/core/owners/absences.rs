//! Owners that are proven absent, and how long each proof counts (G1). So the dependents of one owner need one live read and
//! not one each.

use crate::model::Identity;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// How long a proof counts. A restored owner is found after that, even if nothing else shows the restore.
pub const VALID: Duration = Duration::from_secs(30);
/// How many owners are remembered, as in kube-controller-manager.
const CAPACITY: usize = 500;

/// The proofs. All times are those of the caller's clock, since any fixed moment.
#[derive(Debug, Default)]
pub struct Absences {
    proven_at: HashMap<Identity, Duration>,
    /// In the order of their arrival. An entry that was proven again later is there twice.
    arrived: VecDeque<(Duration, Identity)>,
    /// Older proofs do not count.
    trusted_since: Duration,
}

// === impl Absences ===

impl Absences {
    /// Remembers that an owner is absent. `at` is when the read began, or when the event of the deletion arrived.
    pub fn insert(&mut self, owner: Identity, at: Duration) {
        if at < self.trusted_since {
            return;
        }
        self.proven_at.insert(owner.clone(), at);
        self.arrived.push_back((at, owner));
        while self.arrived.len() > CAPACITY || self.arrived.front().is_some_and(|(first, _)| *first + VALID < at) {
            self.forget_first();
        }
    }

    pub fn proves(&self, owner: &Identity, now: Duration) -> bool {
        self.proven_at.get(owner).is_some_and(|at| now <= *at + VALID)
    }

    /// Forgets the proof about an owner that exists after all.
    pub fn remove(&mut self, owner: &Identity) {
        self.proven_at.remove(owner);
    }

    /// Forgets all proofs, and those of reads that began before `now`: the state of the API server may be an older one, as
    /// after a restore.
    pub fn distrust(&mut self, now: Duration) {
        self.proven_at.clear();
        self.arrived.clear();
        self.trusted_since = now;
    }

    pub fn iter(&self) -> impl Iterator<Item = &Identity> {
        let is_valid = |(at, owner): &&(Duration, Identity)| self.proven_at.get(owner) == Some(at);
        self.arrived.iter().filter(is_valid).map(|(_, owner)| owner)
    }

    fn forget_first(&mut self) {
        let Some((at, owner)) = self.arrived.pop_front() else { return };
        if self.proven_at.get(&owner) == Some(&at) {
            self.proven_at.remove(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ApiKind, Uid};

    fn owner(name: &str) -> Identity {
        let kind = ApiKind::new("v1", "Pod");
        Identity { kind, namespace: "ns1".into(), name: name.into(), uid: Uid::new(name) }
    }

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn a_proof_counts_for_half_a_minute() {
        let mut absences = Absences::default();
        absences.insert(owner("a"), at(10));
        assert!(absences.proves(&owner("a"), at(40)));
        assert!(!absences.proves(&owner("a"), at(41)));
        assert!(!absences.proves(&owner("b"), at(10)));
        absences.insert(owner("a"), at(35));
        absences.insert(owner("b"), at(60));
        assert!(absences.proves(&owner("a"), at(65)), "the later proof counts");
        absences.remove(&owner("a"));
        assert_eq!(absences.iter().collect::<Vec<_>>(), [&owner("b")]);
    }

    #[test]
    fn a_read_from_before_a_gap_is_no_proof() {
        let mut absences = Absences::default();
        absences.insert(owner("a"), at(10));
        absences.distrust(at(12));
        absences.insert(owner("b"), at(11));
        absences.insert(owner("c"), at(12));
        assert_eq!(absences.iter().collect::<Vec<_>>(), [&owner("c")]);
        assert!(!absences.proves(&owner("a"), at(12)) && !absences.proves(&owner("b"), at(12)));
    }

    #[test]
    fn the_memory_is_limited_in_number_and_time() {
        let mut absences = Absences::default();
        for number in 0..2 * CAPACITY {
            absences.insert(owner(&number.to_string()), at(1));
        }
        assert_eq!((absences.arrived.len(), absences.proven_at.len()), (CAPACITY, CAPACITY));
        absences.insert(owner("late"), at(100));
        assert_eq!((absences.arrived.len(), absences.proven_at.len()), (1, 1));
    }
}
