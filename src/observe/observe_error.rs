//! Errors of an observation.

use std::io;
use std::path::PathBuf;

use crate::host_path::CallError;

/// A failed observation. Its text becomes the cause in a `NotSeen`.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// A file system did not respond.
    #[error(transparent)]
    Access(#[from] CallError),
    /// A directory could not be listed.
    #[error("cannot list {}: {source}", path.display())]
    List { path: PathBuf, source: io::Error },
    /// A file system could not be measured.
    #[error("cannot measure the file system of {}: {source}", path.display())]
    Measure {
        /// A directory on it.
        path: PathBuf,
        source: io::Error,
    },
    /// The kubelet pulls an image, and its record does not name the image.
    #[error("{} does not name the image that is being pulled: {cause}", path.display())]
    ReadPull { path: PathBuf, cause: String },
    /// The runtime does not report the location of its images.
    #[error("ImageFsInfo names no file system")]
    NoImageFilesystem,
}
