//! The keys that are ready, shared out among namespaces: each has its turn, and none has all workers (G5). So the objects of
//! one tenant, however many and slow, delay those of the others by one round.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Who shares the workers: a namespace, or the cluster scope as an empty one.
pub(in crate::controller) type Share = Arc<str>;

#[derive(Debug)]
pub(super) struct Ready<K> {
    keys: HashMap<Share, VecDeque<K>>,
    /// Those with keys, the next one first.
    turns: VecDeque<Share>,
    /// How many keys of each are being processed.
    processing: HashMap<Share, usize>,
    /// The most keys of one share that are processed at a time.
    limit: usize,
    len: usize,
}

// === impl Ready ===

impl<K> Ready<K> {
    /// Leaves a quarter of the workers to others, whatever one share has to do.
    pub(super) fn share_out(&mut self, workers: usize) {
        self.limit = workers - workers / 4;
    }

    pub(super) fn push(&mut self, share: Share, key: K) {
        self.keys_of(share).push_back(key);
    }

    /// Adds a key that comes before the others of its share.
    pub(super) fn push_first(&mut self, share: Share, key: K) {
        self.keys_of(share).push_front(key);
    }

    fn keys_of(&mut self, share: Share) -> &mut VecDeque<K> {
        self.len += 1;
        let keys = self.keys.entry(Arc::clone(&share)).or_default();
        if keys.is_empty() {
            self.turns.push_back(share);
        }
        keys
    }

    /// Takes the next key of the next share that is not at its limit.
    pub(super) fn take(&mut self) -> Option<(Share, K)> {
        let at =
            self.turns.iter().position(|share| self.processing.get(share).is_none_or(|busy| *busy < self.limit))?;
        let share = self.turns.remove(at)?;
        let keys = self.keys.get_mut(&share)?;
        let key = keys.pop_front()?;
        if keys.is_empty() {
            self.keys.remove(&share);
        } else {
            self.turns.push_back(Arc::clone(&share));
        }
        self.len -= 1;
        *self.processing.entry(Arc::clone(&share)).or_default() += 1;
        Some((share, key))
    }

    /// A key of this share is not processed any more.
    pub(super) fn end(&mut self, share: &Share) {
        if let Some(busy) = self.processing.get_mut(share) {
            *busy -= 1;
            if *busy == 0 {
                self.processing.remove(share);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<K> Default for Ready<K> {
    fn default() -> Self {
        let (keys, turns, processing) = (HashMap::new(), VecDeque::new(), HashMap::new());
        Self { keys, turns, processing, limit: usize::MAX, len: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_take_turns_and_none_has_all_workers() {
        let mut ready = Ready::default();
        ready.share_out(4);
        for number in 1..=5 {
            ready.push("a".into(), number);
        }
        ready.push("b".into(), 10);
        ready.push("b".into(), 11);
        let taken: Vec<_> = std::iter::from_fn(|| ready.take()).map(|(_, key)| key).collect();
        assert_eq!(taken, [1, 10, 2, 11, 3], "in turn, and at most three of one");
        assert_eq!(ready.len(), 2);
        ready.end(&"b".into());
        assert_eq!(ready.take(), None);
        ready.end(&"a".into());
        assert_eq!(ready.take(), Some(("a".into(), 4)));
    }

    #[test]
    fn a_first_key_comes_before_those_of_its_share() {
        let mut ready = Ready::default();
        ready.push("a".into(), 1);
        ready.push("b".into(), 10);
        ready.push_first("b".into(), 9);
        let taken: Vec<_> = std::iter::from_fn(|| ready.take()).map(|(_, key)| key).collect();
        assert_eq!(taken, [1, 9, 10]);
    }

    #[test]
    fn a_share_without_keys_leaves_nothing() {
        let mut ready = Ready::default();
        ready.push("a".into(), 1);
        let (share, _) = ready.take().unwrap();
        ready.end(&share);
        assert!(ready.is_empty() && ready.keys.is_empty() && ready.turns.is_empty() && ready.processing.is_empty());
    }
}
