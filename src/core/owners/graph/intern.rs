//! Numbers for values that many objects share: kinds and namespaces. A value goes with its last use, because references can
//! name any number of kinds (G5).

use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug)]
pub(super) struct Interner<T> {
    numbers: HashMap<T, u32>,
    /// The value of each number, and how often it is in use.
    uses: Vec<Option<(T, u32)>>,
    free: Vec<u32>,
}

// === impl Interner ===

impl<T: Clone + Eq + Hash> Interner<T> {
    /// Returns the number of a value, and counts a use of it.
    pub(super) fn acquire(&mut self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value).copied() {
            if let Some((_, uses)) = self.slot(number) {
                *uses += 1;
            }
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.uses.push(None);
            u32::try_from(self.uses.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(slot) = self.uses.get_mut(number as usize) {
            *slot = Some((value.clone(), 1));
        }
        self.numbers.insert(value.clone(), number);
        number
    }

    pub(super) fn release(&mut self, number: u32) {
        let Some((_, uses)) = self.slot(number) else { return };
        *uses -= 1;
        if *uses > 0 {
            return;
        }
        let ended = self.uses.get_mut(number as usize).and_then(Option::take);
        if let Some((value, _)) = ended {
            self.numbers.remove(&value);
            self.free.push(number);
        }
    }

    pub(super) fn value(&self, number: u32) -> Option<&T> {
        self.uses.get(number as usize)?.as_ref().map(|(value, _)| value)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    fn slot(&mut self, number: u32) -> Option<&mut (T, u32)> {
        self.uses.get_mut(number as usize)?.as_mut()
    }
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), uses: Vec::new(), free: Vec::new() }
    }
}
