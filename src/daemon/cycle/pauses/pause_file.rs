//! The file of a pause, the one that is kept in reserve for a full disk, and the lock of removals in progress: each removal shares it,
//! and a pause that was written waits until no removal has it.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fleet::Pause;
use crate::host_path::{BoundedCalls, CallError, written_beside};

/// The bytes of the file in reserve: a block of most file systems.
const RESERVE: usize = 4096;

/// Writes the file of a pause, or replaces it. On a full disk the file in reserve becomes that file.
///
/// # Errors
/// The directory of the store does not exist or cannot be written, or the disk is full and there is no file in reserve.
pub fn write_pause(file: &Path, pause: &Pause) -> io::Result<()> {
    let text = serde_json::to_string(pause)?;
    replace_file(file, &text).or_else(|error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => use_reserve(file, text).map_err(|_| error),
        _ => Err(error),
    })
}

/// Waits until no removal is in progress that began before the pause was written. Returns whether they ended within `limit`.
pub async fn removals_ended(file: &Path, limit: Duration) -> bool {
    let path = lock_of(file);
    let lock = move || File::open(path).and_then(|lock| lock.lock());
    // Without the file there was no removal yet.
    !matches!(BoundedCalls::new(limit).run(file, lock).await, Err(CallError::TimedOut { .. }))
}

/// Returns the lock of a removal that begins, until it is dropped. `None` = a pause begins, or the disk fails: the file of the pause
/// decides.
pub(super) fn removal_in_progress(file: &Path) -> Option<File> {
    let lock = File::options().create(true).truncate(false).write(true).open(lock_of(file)).ok()?;
    lock.try_lock_shared().ok().map(|()| lock)
}

fn lock_of(file: &Path) -> PathBuf {
    file.with_extension("removals")
}

/// Overwrites the file in reserve, which needs no space, and gives it the name of the file of a pause.
fn use_reserve(file: &Path, text: String) -> io::Result<()> {
    let (reserve, mut bytes) = (reserve_of(file), text.into_bytes());
    if bytes.len() > RESERVE {
        return Err(ErrorKind::StorageFull.into());
    }
    bytes.resize(RESERVE, b' ');
    let mut opened = File::options().write(true).open(&reserve)?;
    opened.write_all(&bytes)?;
    opened.sync_all()?;
    std::fs::rename(reserve, file)
}

/// Makes the file in reserve for [`write_pause`], unless it exists.
pub(in crate::daemon) fn keep_reserve(file: &Path) {
    let reserve = reserve_of(file);
    if !is_reserve(&reserve)
        && let Err(error) = replace_file(&reserve, &" ".repeat(RESERVE))
    {
        tracing::warn!(path = %reserve.display(), %error, "`kubegc pause` cannot work on a full disk");
    }
}

fn reserve_of(file: &Path) -> PathBuf {
    file.with_extension("pause-reserve")
}

fn is_reserve(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|found| found.len() == RESERVE as u64)
}

/// Writes a file, so that a reader sees the old text or the new one.
pub(in crate::daemon) fn replace_file(file: &Path, text: &str) -> io::Result<()> {
    let written = written_beside(file, text)?;
    written.as_file().sync_all()?;
    written.persist(file)?;
    Ok(())
}

/// Ends a pause. Returns whether there was one. A file from the reserve goes back there.
///
/// # Errors
/// The file cannot be deleted.
#[expect(clippy::disallowed_methods, reason = "it deletes the file that `write_pause` creates")]
pub fn end_pause(file: &Path) -> io::Result<bool> {
    let ended = if is_reserve(file) { std::fs::rename(file, reserve_of(file)) } else { std::fs::remove_file(file) };
    match ended {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_pause;
    use super::*;

    #[test]
    fn a_pause_is_a_file_that_is_written_and_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kubegc.paused");
        assert_eq!(read_pause(&file), None);
        assert!(!end_pause(&file).unwrap());
        let pause = Pause { reason: "incident".to_owned(), ..Pause::default() };
        write_pause(&file, &Pause::default()).unwrap();
        write_pause(&file, &pause).unwrap();
        assert_eq!(read_pause(&file), Some(pause));
        assert!(end_pause(&file).unwrap());
        assert_eq!(read_pause(&file), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn the_reserve_becomes_the_file_of_a_pause_and_returns_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kubegc.paused");
        let until = Some("2999-12-01T10:00:00Z".parse().unwrap());
        let pause = Pause { reason: "the disk is full, ä".to_owned(), until, ..Pause::default() };
        let write = || use_reserve(&file, serde_json::to_string(&pause).unwrap());
        assert_eq!(write().unwrap_err().kind(), ErrorKind::NotFound, "there is none");
        for _ in 0..2 {
            keep_reserve(&file);
            write().unwrap();
            assert!(!is_reserve(&reserve_of(&file)), "it has the other name");
            assert_eq!(read_pause(&file), Some(pause.clone()));
            assert!(end_pause(&file).unwrap());
            assert!(is_reserve(&reserve_of(&file)) && !file.exists());
        }
        assert!(use_reserve(&file, "x".repeat(RESERVE + 1)).is_err() && is_reserve(&reserve_of(&file)));
    }

    #[tokio::test]
    async fn a_pause_waits_for_the_removals_in_progress() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kubegc.paused");
        let soon = Duration::from_millis(20);
        assert!(removals_ended(&file, soon).await, "there was none");
        let removals = [removal_in_progress(&file).unwrap(), removal_in_progress(&file).unwrap()];
        let ended = tokio::spawn({
            let file = file.clone();
            async move { removals_ended(&file, Duration::from_mins(1)).await }
        });
        assert!(!removals_ended(&file, soon).await, "two are in progress");
        drop(removals);
        assert!(ended.await.unwrap());
        assert!(removal_in_progress(&file).is_some(), "the lock is free again");
    }
}
