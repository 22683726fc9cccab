//! The file for `node_exporter`'s textfile collector.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::text::continued;
use crate::host_path::{BoundedCalls, written_beside};

/// `node_exporter` has no privileges.
const MODE: u32 = 0o644;
/// The longest wait for the disk.
const LIMIT: Duration = Duration::from_secs(30);

/// The file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write metrics to {}: {cause}", path.display())]
pub struct FileError {
    pub path: PathBuf,
    pub cause: io::Error,
}

/// Replaces the file in one step, so that no reader sees a part of it. `text` has the format of Prometheus. Each run is a
/// process of its own, so counters and histograms continue from the values in the file: a counter that began at 0 in each
/// run would not show that two runs did the same.
///
/// # Errors
/// A file in its directory cannot be created or renamed, it is not a regular file at the path, or the disk does
/// not respond within 30 s.
pub async fn write_text_file(path: &Path, text: &str) -> Result<(), FileError> {
    let (file, text) = (path.to_owned(), text.to_owned());
    let written = BoundedCalls::new(LIMIT).run(path, move || write(&file, &text)).await;
    written
        .unwrap_or_else(|late| Err(io::Error::other(late)))
        .map_err(|cause| FileError { path: path.to_owned(), cause })
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    // Opening a FIFO waits for a writer without end.
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::other("it is not a regular file"));
    }
    let earlier = std::fs::read(path).unwrap_or_default();
    replace(path, &continued(&String::from_utf8_lossy(&earlier), text))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let file = written_beside(path, text)?;
    file.as_file().set_permissions(Permissions::from_mode(MODE))?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: &str = "# TYPE a_total counter\na_total 1\n# TYPE g gauge\ng 1\n";

    #[tokio::test]
    async fn the_file_is_world_readable_and_its_counters_continue() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubegc.prom");
        write_text_file(&path, COUNTER).await.unwrap();
        write_text_file(&path, COUNTER).await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), COUNTER.replace("a_total 1", "a_total 2"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[tokio::test]
    async fn a_file_that_is_no_text_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubegc.prom");
        std::fs::write(&path, [0xff, b'\n', 0]).unwrap();
        write_text_file(&path, COUNTER).await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), COUNTER);
    }

    /// Reading it would wait for a writer without end.
    #[tokio::test]
    async fn a_fifo_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubegc.prom");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let written = tokio::time::timeout(Duration::from_secs(5), write_text_file(&path, COUNTER));
        let written = written.await.expect("it blocks");
        assert!(written.unwrap_err().to_string().ends_with("it is not a regular file"));
    }

    #[tokio::test]
    async fn an_error_names_the_file() {
        let error = write_text_file(Path::new("/nowhere/kubegc.prom"), "").await.unwrap_err().to_string();
        assert!(error.starts_with("cannot write metrics to /nowhere/kubegc.prom: No such file"), "{error}");
    }
}
