//! Numbers for values that many objects share: kinds and namespaces.

use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug)]
pub(super) struct Interner<T> {
    numbers: HashMap<T, u32>,
    values: Vec<T>,
}

// === impl Interner ===

impl<T: Clone + Eq + Hash> Interner<T> {
    /// Returns the number of a value.
    pub(super) fn number(&mut self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.numbers.insert(value.clone(), number);
        self.values.push(value.clone());
        number
    }

    pub(super) fn value(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)
    }
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new() }
    }
}
