//! Whether the process can still open files. The address keeps one in reserve, so that readiness says that none is left.

use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

use super::Health;

/// What is missing then.
const FILES: &str = "files";
/// How many must be free: a call to an API server needs one, and to look up a name a few.
const FREE: usize = 4;

/// A file that is given up for one connection.
pub(super) struct Reserve(Option<File>);

// === impl Reserve ===

impl Reserve {
    pub(super) fn new() -> Self {
        Self(any_file().ok())
    }

    /// Gives the file up for a connection that could not be accepted. Returns false if that was for another reason.
    pub(super) fn give_up(&mut self, error: &io::Error) -> bool {
        is_of_files(error) && self.0.take().is_some()
    }

    /// Keeps a file again, if one is free.
    pub(super) fn restore(&mut self) {
        if self.0.is_none() {
            *self = Self::new();
        }
    }
}

/// Records whether some files are free.
pub(super) fn check(health: &Health) {
    let free: io::Result<Vec<_>> = (0..FREE).map(|_| any_file()).collect();
    match free {
        Err(error) if is_of_files(&error) => health.lacks(FILES, text()),
        _ => health.has(FILES),
    }
}

fn text() -> String {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or_else(|_| "unknown".to_owned(), |(soft, _)| soft.to_string());
    format!("the process can open no more files; its limit is {limit}")
}

fn any_file() -> io::Result<File> {
    File::open("/dev/null")
}

fn is_of_files(error: &io::Error) -> bool {
    [Errno::EMFILE, Errno::ENFILE].iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}
