//! The content of a file without its holes: a file of some KiB can have a length of many TiB.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Reads a file from one offset to another, and skips the holes.
#[derive(Debug)]
pub(super) struct Sparse {
    file: File,
    /// Where the next byte is read.
    pub at: u64,
    /// The end of the data that begins before it.
    data_end: u64,
    end: u64,
}

// === impl Sparse ===

impl Sparse {
    pub fn new(file: File, at: u64, end: u64) -> Self {
        Self { file, at, data_end: at, end }
    }

    /// Goes to the next data. Returns whether there is any before the end.
    fn find_data(&mut self) -> io::Result<bool> {
        match seek(&self.file, SeekFrom::Data(self.at)) {
            Ok(at) => (self.at, self.data_end) = (at, seek(&self.file, SeekFrom::Hole(at))?),
            Err(Errno::NXIO) => return Ok(false),
            // The file system does not know.
            Err(_) => self.data_end = u64::MAX,
        }
        Ok(self.at < self.end)
    }
}

impl Read for Sparse {
    /// After the end of a file it reads what was written since.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.data_end && !self.find_data()? {
            return Ok(0);
        }
        let left = self.data_end.min(self.end).saturating_sub(self.at);
        let room = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.file.read_at(buffer.get_mut(..room).unwrap_or_default(), self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_skipped_and_what_is_written_later_is_read() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"one", 8 << 20).unwrap();
        file.set_len(8 << 40).unwrap();
        let mut sparse = Sparse::new(file.try_clone().unwrap(), 1 << 20, u64::MAX);
        let mut read = Vec::new();
        sparse.read_to_end(&mut read).unwrap();
        read.retain(|byte| *byte != 0);
        assert_eq!(read, b"one");
        file.write_all_at(b"two", 8 << 40).unwrap();
        let mut text = String::new();
        sparse.read_to_string(&mut text).unwrap();
        assert!(text.trim_start_matches('\0') == "two" && text.len() <= 1 << 20, "{}", text.len());
        let mut until = Vec::new();
        Sparse::new(file, 0, (8 << 20) + 2).read_to_end(&mut until).unwrap();
        assert!(until.ends_with(b"on") && until.len() <= 1 << 20);
    }
}
