//! Rows with stable numbers. They lie in chunks: growth copies nothing, so the peak stays close to the content.

use std::num::NonZeroU32;

const CHUNK: usize = 4096;

#[derive(Debug)]
pub(super) struct Rows<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<NonZeroU32>,
}

// === impl Rows ===

impl<T> Rows<T> {
    /// Adds a row and returns its number, or `None` if there are 2^32 - 1 rows.
    pub(super) fn insert(&mut self, row: T) -> Option<NonZeroU32> {
        if let Some(number) = self.free.pop() {
            *self.slot(number)? = Some(row);
            return Some(number);
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let full = (self.chunks.len() - 1) * CHUNK;
        let chunk = self.chunks.last_mut()?;
        chunk.push(Some(row));
        NonZeroU32::new(u32::try_from(full + chunk.len()).ok()?)
    }

    pub(super) fn get(&self, number: NonZeroU32) -> Option<&T> {
        let (chunk, row) = place(number);
        self.chunks.get(chunk)?.get(row)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: NonZeroU32) -> Option<&mut T> {
        self.slot(number)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: NonZeroU32) -> Option<T> {
        let row = self.slot(number)?.take()?;
        self.free.push(number);
        Some(row)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (NonZeroU32, &T)> {
        let rows = self.chunks.iter().flatten().zip(1..);
        rows.filter_map(|(row, number)| Some((NonZeroU32::new(number)?, row.as_ref()?)))
    }

    fn slot(&mut self, number: NonZeroU32) -> Option<&mut Option<T>> {
        let (chunk, row) = place(number);
        self.chunks.get_mut(chunk)?.get_mut(row)
    }
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new() }
    }
}

/// Row 1 is the first of the first chunk.
fn place(number: NonZeroU32) -> (usize, usize) {
    let at = number.get() as usize - 1;
    (at / CHUNK, at % CHUNK)
}
