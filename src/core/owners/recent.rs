//! Remembers a limited number of things: the least recently used one makes room.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// The things used last, at most `CAPACITY` of them.
#[derive(Debug, Default)]
pub struct Recent<T, const CAPACITY: usize> {
    last_use: HashMap<T, u64>,
    by_use: BTreeMap<u64, T>,
    uses: u64,
}

// === impl Recent ===

impl<T: Clone + Eq + Hash, const CAPACITY: usize> Recent<T, CAPACITY> {
    /// Adds a thing, or counts as its use.
    pub fn insert(&mut self, thing: T) {
        if !self.touch(&thing) {
            self.used(thing);
        }
        if self.last_use.len() > CAPACITY
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.last_use.remove(&oldest);
        }
    }

    /// Returns whether the thing is remembered, and counts as its use.
    pub fn touch(&mut self, thing: &T) -> bool {
        let known = self.last_use.get(thing).and_then(|last| self.by_use.remove(last));
        let is_known = known.is_some();
        if let Some(thing) = known {
            self.used(thing);
        }
        is_known
    }

    fn used(&mut self, thing: T) {
        self.uses += 1;
        self.last_use.insert(thing.clone(), self.uses);
        self.by_use.insert(self.uses, thing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_thing_makes_room() {
        let mut recent = Recent::<_, 2>::default();
        recent.insert("1");
        recent.insert("2");
        assert!(recent.touch(&"1"));
        recent.insert("3");
        assert_eq!(recent.by_use.values().copied().collect::<Vec<_>>(), ["1", "3"]);
        assert!(!recent.touch(&"2"));
        recent.insert("1");
        assert_eq!(recent.by_use.values().copied().collect::<Vec<_>>(), ["3", "1"]);
    }
}
