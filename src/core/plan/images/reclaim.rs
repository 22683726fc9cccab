//! What the removal of images reclaims, and in which order images are removed so that each removal reclaims something.
//!
//! With the store of the runtime, an estimate is what the removal reclaims after those before it: the layers and blobs that
//! nothing else holds by then. An image that reclaims nothing waits. It is removed after the image that holds the same layers
//! is, or together with it, if only all of them reclaim something; otherwise it is kept. Without the store, the estimate is
//! the size that the runtime reports, and the order is that of last use alone.

use std::collections::VecDeque;

use super::candidate::Candidate;
use crate::model::{Image, ImageId, StoreHolder};
use crate::store::StoreIndex;

/// What counts as nothing: a manifest and a configuration, in blocks. They are not worth a pull.
const NOTHING_BYTES: u64 = 64 << 10;

/// The estimates of removals, each after those before it.
#[derive(Default)]
pub(super) struct Estimates<'a>(Option<StoreIndex<'a>>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reclaimed {
    pub bytes: u64,
    /// `None` = not known.
    pub inodes: Option<u64>,
}

/// What an image holds: a part of the store, or something that is not known.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Held {
    Part(usize),
    Image(ImageId),
}

/// Images that are removed together, with what each reclaims after those before it.
pub(super) type RemovalSet<'i> = Vec<(Candidate<'i>, Reclaimed)>;

/// The candidates in the order of their removal.
pub(super) struct Order<'a, 'i> {
    estimates: Estimates<'a>,
    left: VecDeque<Candidate<'i>>,
    /// Those that reclaim nothing so far.
    waiting: Vec<Candidate<'i>>,
    /// The number of them that hold each part.
    waiting_holders: Vec<u32>,
}

// === impl Estimates ===

impl<'a> Estimates<'a> {
    pub fn new(index: Option<StoreIndex<'a>>) -> Self {
        Self(index)
    }

    /// Removes a candidate from the store of the estimates, and returns what this reclaims.
    pub fn remove(&mut self, candidate: &Candidate) -> Reclaimed {
        let reported = Reclaimed { bytes: candidate.image.size_bytes, inodes: None };
        let reclaimed = self.reclaimed(candidate).unwrap_or(reported);
        if let Some(index) = &mut self.0 {
            index.remove(&candidate.image.id);
        }
        reclaimed
    }

    /// Deletes the oldest lease on a removed image in the store of the estimates. Returns it, and what this reclaims.
    pub fn remove_undo_lease(&mut self) -> Option<(&'a StoreHolder, u64)> {
        self.0.as_mut()?.remove_undo_lease()
    }

    /// Returns the bytes of all images; `None` = not all are known.
    pub fn all_bytes(&self) -> Option<u64> {
        self.0.as_ref()?.all_bytes()
    }

    /// Returns what a removal reclaims now; `None` = the store does not show it.
    fn reclaimed(&self, candidate: &Candidate) -> Option<Reclaimed> {
        let (index, id) = (self.0.as_ref()?, &candidate.image.id);
        // A part that others hold now may be reclaimed later, so the sizes of all must be known.
        index.bytes_of(id)?;
        Some(Reclaimed { bytes: index.own_bytes(id)?, inodes: index.inodes(index.held_alone(id)) })
    }

    /// Returns what an image holds, each part with its bytes. One whose bytes are not known is one part, with those that the
    /// runtime reports.
    pub fn held(&self, image: &Image) -> Vec<(Held, u64)> {
        let known = self.0.as_ref().filter(|index| index.bytes_of(&image.id).is_some());
        let Some(index) = known else { return vec![(Held::Image(image.id.clone()), image.size_bytes)] };
        let bytes = |part: &usize| index.part(*part)?.bytes.map(|bytes| (Held::Part(*part), bytes));
        self.parts_of(&image.id).iter().filter_map(bytes).collect()
    }

    fn parts_of(&self, image: &ImageId) -> &[usize] {
        self.0.as_ref().and_then(|index| index.parts_of(image)).unwrap_or_default()
    }
}

// === impl Order ===

impl<'a, 'i> Order<'a, 'i> {
    pub fn new(estimates: Estimates<'a>, candidates: Vec<Candidate<'i>>) -> Self {
        let parts = estimates.0.as_ref().map_or(0, |index| index.store.parts.len());
        Self { estimates, left: candidates.into(), waiting: Vec::new(), waiting_holders: vec![0; parts] }
    }

    /// Returns the next images to remove.
    pub fn next(&mut self) -> Option<RemovalSet<'i>> {
        let freed = self.waiting.iter().position(|candidate| !self.reclaims_nothing(candidate));
        if let Some(place) = freed {
            let candidate = self.waiting.remove(place);
            self.count_waiting(&candidate, |count| count - 1);
            return Some(self.remove_together(vec![candidate]));
        }
        let set = self.completed_by_removals();
        if !set.is_empty() {
            return Some(self.remove_together(set));
        }
        while let Some(candidate) = self.left.pop_front() {
            if !self.reclaims_nothing(&candidate) {
                return Some(self.remove_together(vec![candidate]));
            }
            let mut set = self.completed_by(&self.held_last(&candidate, 1));
            if set.is_empty() {
                self.wait(candidate);
                continue;
            }
            set.push(candidate);
            return Some(self.remove_together(set));
        }
        None
    }

    /// Returns the candidates that are left: their removal reclaims nothing.
    pub fn into_useless(self) -> Vec<Candidate<'i>> {
        self.waiting
    }

    /// Returns the candidates that are left, and the estimates after the removals.
    pub fn into_rest(self) -> (Vec<Candidate<'i>>, Estimates<'a>) {
        (self.left.into_iter().chain(self.waiting).collect(), self.estimates)
    }

    fn reclaims_nothing(&self, candidate: &Candidate) -> bool {
        self.estimates.reclaimed(candidate).is_some_and(|reclaimed| reclaimed.bytes < NOTHING_BYTES)
    }

    fn wait(&mut self, candidate: Candidate<'i>) {
        self.count_waiting(&candidate, |count| count + 1);
        self.waiting.push(candidate);
    }

    fn count_waiting(&mut self, candidate: &Candidate, change: fn(u32) -> u32) {
        for part in self.estimates.parts_of(&candidate.image.id) {
            if let Some(count) = self.waiting_holders.get_mut(*part) {
                *count = change(*count);
            }
        }
    }

    /// Takes waiting candidates that hold what only they hold by now, because another holder was removed.
    fn completed_by_removals(&mut self) -> Vec<Candidate<'i>> {
        let of_waiting = self.waiting.iter().map(|candidate| self.held_last(candidate, 0));
        let parts = of_waiting.into_iter().find(|parts| self.reclaims_something(parts));
        parts.map(|parts| self.completed_by(&parts)).unwrap_or_default()
    }

    /// Takes the waiting candidates that hold these parts, if they are more than nothing.
    fn completed_by(&mut self, parts: &[usize]) -> Vec<Candidate<'i>> {
        if !self.reclaims_something(parts) {
            return Vec::new();
        }
        let estimates = &self.estimates;
        let holds = |one: &mut Candidate| {
            let held = estimates.parts_of(&one.image.id);
            parts.iter().any(|part| held.binary_search(part).is_ok())
        };
        let set: Vec<_> = self.waiting.extract_if(.., holds).collect();
        for one in &set {
            self.count_waiting(one, |count| count - 1);
        }
        set
    }

    /// Returns the parts of a candidate that only waiting candidates hold, and so many others.
    fn held_last(&self, candidate: &Candidate, others: u32) -> Vec<usize> {
        let Some(index) = &self.estimates.0 else { return Vec::new() };
        let is_last = |part: &usize| {
            let waiting = self.waiting_holders.get(*part).copied().unwrap_or_default();
            waiting > 0 && waiting + others == index.owners(*part)
        };
        self.estimates.parts_of(&candidate.image.id).iter().copied().filter(is_last).collect()
    }

    fn reclaims_something(&self, parts: &[usize]) -> bool {
        let bytes = self.estimates.0.as_ref().and_then(|index| index.bytes(parts.iter().copied()));
        bytes.is_some_and(|bytes| bytes >= NOTHING_BYTES)
    }

    fn remove_together(&mut self, set: Vec<Candidate<'i>>) -> RemovalSet<'i> {
        let remove = |candidate: Candidate<'i>| {
            let reclaimed = self.estimates.remove(&candidate);
            (candidate, reclaimed)
        };
        set.into_iter().map(remove).collect()
    }
}

#[cfg(test)]
mod tests;
