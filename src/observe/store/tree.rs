//! The space of a directory on its disk: the blocks of its files, and not their lengths. A file of 100 bytes takes a block of
//! 4 KiB, and one with holes takes less than its length.
//!
//! What is in the directory is a tenant's: its names are only counted, no link is followed, and no mount is entered.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tokio::time::Instant;
use walkdir::WalkDir;

/// The bytes and inodes of a directory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct TreeSize {
    pub bytes: u64,
    pub inodes: u64,
}

/// The bytes of a block in `st_blocks`, whatever the file system has (stat(2)).
const BLOCK: u64 = 512;

/// Measures a directory or file. A file with several names in the directory counts once.
///
/// # Errors
/// The path does not exist, a part of it cannot be read, or the time is over.
pub(super) fn measure(path: &Path, until: Instant) -> io::Result<TreeSize> {
    let device = path.symlink_metadata()?.dev();
    let (mut size, mut linked) = (TreeSize::default(), HashSet::new());
    for entry in WalkDir::new(path).follow_links(false).follow_root_links(false).same_file_system(true) {
        if Instant::now() >= until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it has too many files to count them in time"));
        }
        let found = entry.and_then(|entry| entry.metadata());
        let Some(file) = present(found)? else { continue };
        let is_new = file.is_dir() || file.nlink() == 1 || linked.insert(file.ino());
        if is_new && file.dev() == device {
            size.bytes = size.bytes.saturating_add(file.blocks() * BLOCK);
            size.inodes += 1;
        }
    }
    Ok(size)
}

/// Returns what was read, or nothing if it was removed meanwhile.
fn present<T>(read: walkdir::Result<T>) -> io::Result<Option<T>> {
    match read.map_err(io::Error::from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn later() -> Instant {
        Instant::now() + Duration::from_mins(10)
    }

    #[test]
    fn blocks_count_and_a_file_with_two_names_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let empty = measure(dir.path(), later()).unwrap();
        for number in 0..10 {
            std::fs::write(dir.path().join(number.to_string()), [7; 100]).unwrap();
        }
        std::fs::hard_link(dir.path().join("0"), dir.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        let file = std::fs::metadata(dir.path().join("0")).unwrap().blocks() * BLOCK;
        let link = std::fs::symlink_metadata(dir.path().join("link")).unwrap().blocks() * BLOCK;
        let size = measure(dir.path(), later()).unwrap();
        assert_eq!((size.bytes - empty.bytes, size.inodes - empty.inodes), (10 * file + link, 11));
    }

    #[test]
    fn what_does_not_exist_or_takes_too_long_has_no_size() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(measure(&dir.path().join("none"), later()).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(measure(dir.path(), Instant::now()).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
