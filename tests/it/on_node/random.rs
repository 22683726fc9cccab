//! Pseudo-random numbers for tests.

use std::sync::atomic::{AtomicU64, Ordering};

/// Pseudo-random numbers; the same seed gives the same ones.
pub struct Random(AtomicU64);

// === impl Random ===

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Returns a number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        let state = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) % end
    }

    /// Returns true in so many of 100 cases.
    pub fn percent(&self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Returns one of the items. There must be one.
    pub fn one_of<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[usize::try_from(self.below(items.len() as u64)).unwrap()]
    }
}
