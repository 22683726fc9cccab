//! Remembers owners that were proven absent, so that the dependents of one owner need one live read and not one each.

use std::collections::VecDeque;

use super::Identity;

/// The identities proven absent last, at most [`AbsentOwners::CAPACITY`]. A uid never returns, so an entry stays true;
/// it is removed only if the object appears after all.
#[derive(Debug)]
pub struct AbsentOwners {
    /// Most recently used last.
    identities: VecDeque<Identity>,
    capacity: usize,
}

// === impl AbsentOwners ===

impl AbsentOwners {
    /// As in kube-controller-manager.
    pub const CAPACITY: usize = 500;

    /// Creates an empty memory of this many entries.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { identities: VecDeque::new(), capacity }
    }

    /// Adds an identity, and removes the least recently used one if there is no room.
    pub fn insert(&mut self, identity: Identity) {
        if !self.touch(&identity) {
            self.identities.push_back(identity);
        }
        if self.identities.len() > self.capacity {
            self.identities.pop_front();
        }
    }

    /// Returns whether the identity is proven absent, and counts as a use.
    pub fn touch(&mut self, identity: &Identity) -> bool {
        let found = self.identities.iter().rposition(|known| known == identity);
        let used = found.and_then(|at| self.identities.remove(at));
        let is_known = used.is_some();
        self.identities.extend(used);
        is_known
    }

    /// Removes an identity, because the object exists.
    pub fn remove(&mut self, identity: &Identity) {
        self.identities.retain(|known| known != identity);
    }

    /// Lists the identities, least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = &Identity> {
        self.identities.iter()
    }
}

impl Default for AbsentOwners {
    fn default() -> Self {
        Self::with_capacity(Self::CAPACITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owners::{Kind, Uid};

    fn rc(name: &str) -> Identity {
        let kind = Kind::new("v1", "ReplicationController");
        Identity { kind, namespace: "ns1".into(), name: name.into(), uid: Uid::new(name) }
    }

    #[test]
    fn the_least_recently_used_identity_makes_room() {
        let mut absent = AbsentOwners::with_capacity(2);
        absent.insert(rc("1"));
        absent.insert(rc("2"));
        assert!(absent.touch(&rc("1")));
        absent.insert(rc("3"));
        assert_eq!(absent.iter().cloned().collect::<Vec<_>>(), [rc("1"), rc("3")]);
        assert!(!absent.touch(&rc("2")));
        absent.insert(rc("1"));
        assert_eq!(absent.iter().cloned().collect::<Vec<_>>(), [rc("3"), rc("1")]);
    }
}
