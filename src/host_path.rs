//! The file systems of the host, for an agent that sees the host beneath a mountpoint (`host_root`).
//!
//! Symlinks of the host are absolute for the host. `/host/var/run -> /run` must resolve to `/host/run`, but the system
//! would follow it to the agent's own `/run`. So this module follows symlinks itself, beneath the root. Its results are
//! only for finding and reading files. For removals, `execute` opens files without following symlinks.
//!
//! All access from async code uses [`HostFs::run`], or [`BoundedCalls`] for calls that need no path of the host.
//!
//! It also replaces files in one step: the text is written beside the file, which then gets its name.

mod bounded;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

pub use bounded::{BoundedCalls, CallError};

/// The limit on followed symlinks, the same as in Linux.
const MOST_LINKS: usize = 40;

/// The host's file systems. Clones share the places whose calls are limited. Two are equal if they have the same root.
#[derive(Clone, Debug)]
pub struct HostFs {
    root: PathBuf,
    calls: BoundedCalls,
}

/// The result of resolving a path of the host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Resolved {
    /// The path exists, here as the agent sees it.
    Exists(PathBuf),
    /// Some part of the path does not exist. Contains the path that it would have, with all existing symlinks followed.
    Missing(PathBuf),
}

// === impl HostFs ===

impl HostFs {
    /// Creates the file systems of the host whose root is mounted at `root`. Accesses nothing yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), calls: BoundedCalls::default() }
    }

    /// Sets the limit of each call. The places are still shared with `self`.
    #[must_use]
    pub fn with_limit(&self, limit: Duration) -> Self {
        Self { calls: self.calls.with_limit(limit), ..self.clone() }
    }

    /// Returns the same file systems with places of their own: calls to them do not wait for those of `self`.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self::new(&self.root)
    }

    /// Returns the mountpoint of the host's root; `/` unless the agent runs in a container.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs `call` in a thread and waits for its result, as [`BoundedCalls::run`] does. All other methods block.
    ///
    /// # Errors
    /// As [`BoundedCalls::run`].
    pub async fn run<T: Send + 'static>(
        &self,
        place: &Path,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let host = self.clone();
        self.calls.run(place, move || call(&host)).await
    }

    /// Resolves `path` as a process of the host would, following every symlink, and never leaves the root.
    ///
    /// # Errors
    /// As in the system, except for a missing part. Also after too many symlinks, and for a path that is not absolute: it
    /// would be that of another place, and an empty one that of the root.
    pub fn resolve(&self, path: &Path) -> io::Result<Resolved> {
        if !path.is_absolute() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("\"{}\" is not an absolute path", path.display()),
            ));
        }
        let mut ahead: VecDeque<OsString> = parts(path).collect();
        let mut real = PathBuf::new();
        let mut links = 0;
        while let Some(part) = ahead.pop_front() {
            if part == ".." {
                real.pop();
                continue;
            }
            let here = self.root.join(&real).join(&part);
            let kind = match std::fs::symlink_metadata(&here) {
                Ok(metadata) => metadata.file_type(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Resolved::Missing(ahead.iter().fold(here, |path, part| path.join(part))));
                }
                Err(error) => return Err(error),
            };
            if !kind.is_symlink() {
                real.push(part);
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(io::Error::from_raw_os_error(nix::libc::ELOOP));
            }
            let target = std::fs::read_link(&here)?;
            if target.is_absolute() {
                real = PathBuf::new();
            }
            for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                ahead.push_front(part);
            }
        }
        Ok(Resolved::Exists(self.root.join(real)))
    }

    /// Returns whether a path of the host exists, with every symlink followed.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn exists(&self, path: &Path) -> io::Result<bool> {
        if self.is_agents() {
            // The system resolves links faster than this code, and there are thousands of them.
            return path.try_exists();
        }
        Ok(matches!(self.resolve(path)?, Resolved::Exists(_)))
    }

    /// Returns the path under which the agent reaches a path of the host. If the host has no such file, a file that is
    /// mounted into the agent's container under this path is used. A relative path is always the agent's.
    pub fn locate(&self, path: &Path) -> Resolved {
        let is_agents = self.is_agents() || path.is_relative();
        let beneath = if is_agents { Ok(Resolved::Missing(path.to_owned())) } else { self.resolve(path) };
        match beneath {
            Ok(found @ Resolved::Exists(_)) => found,
            _ if path.exists() => Resolved::Exists(path.to_owned()),
            Ok(missing) => missing,
            Err(_) => Resolved::Missing(self.root.join(path.strip_prefix("/").unwrap_or(path))),
        }
    }

    /// Returns whether the host's root is the agent's own.
    pub fn is_agents(&self) -> bool {
        self.root == Path::new("/")
    }
}

/// The file systems as a process of the host sees them.
impl Default for HostFs {
    fn default() -> Self {
        Self::new("/")
    }
}

impl PartialEq for HostFs {
    fn eq(&self, other: &Self) -> bool {
        self.root == other.root
    }
}

impl Eq for HostFs {}

// === impl Resolved ===

impl Resolved {
    /// Returns the path, whether it exists or not.
    pub fn into_path(self) -> PathBuf {
        match self {
            Self::Exists(path) | Self::Missing(path) => path,
        }
    }

    /// Returns the path if it exists.
    pub fn existing(self) -> Option<PathBuf> {
        match self {
            Self::Exists(path) => Some(path),
            Self::Missing(_) => None,
        }
    }
}

/// Returns the components of a path without `/` and `.`.
fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Writes a text into a temporary file in the directory of `path`. The caller sets what else it needs, and then replaces `path` with
/// [`NamedTempFile::persist`]. A reader sees the old text or the new one.
///
/// # Errors
/// The directory does not exist, or cannot be written.
pub fn written_beside(path: &Path, text: &str) -> io::Result<NamedTempFile> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The collector of node_exporter reads files that end in .prom, and this one does not.
    let mut file = tempfile::Builder::new().prefix(".kubegc-").suffix(".tmp").tempfile_in(dir)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A host with /run, /var/run -> /run and a few unusual symlinks.
    fn host() -> (tempfile::TempDir, HostFs) {
        let host = tempfile::tempdir().unwrap();
        let at = |path: &str| host.path().join(path);
        std::fs::create_dir_all(at("run/crio")).unwrap();
        std::fs::create_dir_all(at("var/log")).unwrap();
        std::fs::write(at("run/crio/crio.sock"), "").unwrap();
        for (link, target) in [
            ("var/run", "/run"),
            ("var/up", "../run"),
            ("var/out", "../../../../../../run"),
            ("var/chain", "/var/run/crio"),
            ("var/nowhere", "/run/absent/x"),
            ("var/loop", "/var/loop"),
            ("var/through-file", "/run/crio/crio.sock/x"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let fs = HostFs::new(host.path());
        (host, fs)
    }

    #[test]
    fn a_host_path_resolves_as_on_the_host() {
        let (host, fs) = host();
        for (path, place) in [
            ("/run/crio/crio.sock", "run/crio/crio.sock"),
            ("/var/run/crio/crio.sock", "run/crio/crio.sock"),
            ("/var/up/crio", "run/crio"),
            ("/var/out/crio", "run/crio"),
            ("/var/chain/crio.sock", "run/crio/crio.sock"),
            ("/var/../run/./crio", "run/crio"),
            ("/", ""),
        ] {
            assert_eq!(fs.resolve(path.as_ref()).unwrap(), Resolved::Exists(host.path().join(place)), "{path}");
        }
    }

    #[test]
    fn what_is_missing_keeps_the_path_it_would_have() {
        let (host, fs) = host();
        for (path, place) in
            [("/var/run/new/new.sock", "run/new/new.sock"), ("/var/nowhere", "run/absent/x"), ("/absent", "absent")]
        {
            let place = Resolved::Missing(host.path().join(place));
            assert_eq!(fs.resolve(path.as_ref()).unwrap(), place, "{path}");
        }
    }

    #[test]
    fn link_loops_and_paths_through_files_are_errors() {
        let (_host, fs) = host();
        for (path, number) in [("/var/loop", nix::libc::ELOOP), ("/var/through-file", nix::libc::ENOTDIR)] {
            assert_eq!(fs.resolve(path.as_ref()).unwrap_err().raw_os_error(), Some(number), "{path}");
        }
    }
}
