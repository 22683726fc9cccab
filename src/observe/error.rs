//! What can go wrong while looking.

use std::io;
use std::path::PathBuf;

/// A look that failed. Its text becomes the cause in a `NotSeen`.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The file system did not answer in time.
    #[error("{}: no answer within {seconds} s; the file system hangs", path.display())]
    Hangs {
        /// What was looked at.
        path: PathBuf,
        /// The limit that passed.
        seconds: u64,
    },
    /// An earlier look at the same place has still not come back, so no other is begun.
    #[error("{}: an earlier look at it has not come back; the file system hangs", path.display())]
    StillHangs {
        /// What was looked at.
        path: PathBuf,
    },
    /// The look could not be begun, or ended without an answer.
    #[error("{}: cannot look at it: {source}", path.display())]
    Look {
        /// What was looked at.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory could not be listed.
    #[error("cannot list {}: {source}", path.display())]
    List {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file system could not be measured.
    #[error("cannot measure the file system of {}: {source}", path.display())]
    Measure {
        /// A directory on it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kubelet pulls an image, and its record does not tell which.
    #[error("{} does not tell which image is being pulled: {cause}", path.display())]
    ReadPull {
        /// The record.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// The runtime does not say where its images lie.
    #[error("ImageFsInfo names no file system")]
    NoImageFilesystem,
}
