//! The configuration files: which they are, and whether they have changed.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::kubelet_config as kubelet;
use crate::config::{Environment, Typed};
use crate::model::exact_size_text;

/// The default configuration file. It is optional.
const DEFAULT_FILE: &str = "/etc/kubegc/kubegc.toml";

/// The largest configuration file that is read.
const MAX_BYTES: u64 = 4 << 20;

/// A directory that cannot be listed, and why.
pub(super) type Unreadable = (PathBuf, std::io::Error);

/// The configuration files, and the version of each that exists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigFiles {
    main: PathBuf,
    typed: Typed,
    versions: BTreeMap<PathBuf, Version>,
}

/// What changes with the content of a file, also if the file is a symlink and its target is another one: device, inode,
/// size, and the time of the last change of the inode in seconds and nanoseconds.
type Version = (u64, u64, u64, i64, i64);

// === impl ConfigFiles ===

impl ConfigFiles {
    /// Finds the files that [`crate::config::load`] reads for the same input.
    pub fn find(typed: &Typed, environment: &Environment) -> Self {
        let main = main_file(typed, environment).0.to_owned();
        Self { main, typed: typed.clone(), versions: BTreeMap::new() }.find_again()
    }

    /// Finds the same files again. May block.
    #[must_use]
    pub fn find_again(&self) -> Self {
        let drop_ins = config_drop_ins(&self.main).unwrap_or_default();
        let kubelet = self.typed.kubelet_config.clone().into_iter();
        let kubelet = kubelet.chain(kubelet_drop_ins(&self.typed).unwrap_or_default());
        let paths = [self.main.clone()].into_iter().chain(kubelet).chain(drop_ins);
        let versions = paths.filter_map(|path| version(&path).map(|version| (path, version))).collect();
        Self { versions, ..self.clone() }
    }

    pub fn main(&self) -> &Path {
        &self.main
    }

    /// Returns whether the configuration file exists.
    pub fn has_main(&self) -> bool {
        self.versions.contains_key(&self.main)
    }
}

/// Reads a regular file, and returns its text and its permissions. A FIFO would block for ever, and a device has no end.
///
/// # Errors
/// The file cannot be read, is no regular file, is too large, or is not UTF-8.
pub(super) fn read_regular(path: &Path) -> std::io::Result<(String, u32)> {
    let invalid = |text: String| std::io::Error::new(ErrorKind::InvalidData, text);
    // Without O_NONBLOCK the open of a FIFO waits for a writer.
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(invalid("not a regular file".to_owned()));
    }
    let mut text = String::new();
    if file.take(MAX_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_BYTES {
        return Err(invalid(format!("larger than {}", exact_size_text(MAX_BYTES))));
    }
    Ok((text, metadata.mode()))
}

/// Returns the configuration file, and whether the command line or the environment names it.
pub(super) fn main_file<'a>(typed: &'a Typed, environment: &'a Environment) -> (&'a Path, bool) {
    let named = typed.config.as_deref().or(environment.config.as_deref());
    (named.unwrap_or(Path::new(DEFAULT_FILE)), named.is_some())
}

/// Lists the files of the drop-in directory beside the configuration file, sorted by name; none if it does not exist.
///
/// # Errors
/// The directory cannot be listed.
pub(super) fn config_drop_ins(main: &Path) -> Result<Vec<PathBuf>, Unreadable> {
    let directory = main.parent().unwrap_or(Path::new("")).join("conf.d");
    let listed = match std::fs::read_dir(&directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>()),
    };
    let mut paths = listed.map_err(|error| (directory, error))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    // Hidden files include the swap files of editors.
    paths.retain(|path| path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b".")));
    paths.sort();
    Ok(paths)
}

/// Lists the kubelet's drop-in files.
///
/// # Errors
/// The directory cannot be listed, or it was named and does not exist.
pub(super) fn kubelet_drop_ins(typed: &Typed) -> Result<Vec<PathBuf>, Unreadable> {
    let beside = typed.kubelet_config.as_ref().map(|file| file.with_added_extension("d"));
    let directory = typed.kubelet_config_dir.clone().or(beside.filter(|directory| directory.is_dir()));
    directory.map_or(Ok(Vec::new()), |directory| kubelet::drop_ins(&directory).map_err(|error| (directory, error)))
}

fn version(path: &Path) -> Option<Version> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.size(), file.ctime(), file.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_of_a_limited_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        symlink("/dev/zero", path("zero")).unwrap();
        fs::File::create(path("large")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        fs::write(path("file"), "mode = \"observe\"").unwrap();
        symlink("file", path("link")).unwrap();
        let error = |name: &str| read_regular(&path(name)).unwrap_err().to_string();
        assert_eq!([error("fifo"), error("zero")], ["not a regular file", "not a regular file"]);
        assert_eq!(error("large"), "larger than 4MiB");
        assert_eq!(read_regular(&path("link")).unwrap().0, "mode = \"observe\"");
    }

    #[test]
    fn every_change_of_a_file_is_another_version() {
        let dir = tempfile::tempdir().unwrap();
        let typed = Typed { config: Some(dir.path().join("kubegc.toml")), ..Typed::default() };
        let mut known = ConfigFiles::find(&typed, &Environment::default());
        assert!(!known.has_main());
        let mut changes = |what: &str, change: &dyn Fn(&Path)| {
            change(dir.path());
            let now = known.find_again();
            assert_ne!(now, known, "{what}");
            assert_eq!(now, now.find_again(), "{what}");
            known = now;
        };
        changes("a file", &|dir| fs::write(dir.join("kubegc.toml"), "").unwrap());
        changes("other content", &|dir| fs::write(dir.join("kubegc.toml"), "mode = \"observe\"").unwrap());
        changes("a drop-in", &|dir| {
            fs::create_dir(dir.join("conf.d")).unwrap();
            fs::write(dir.join("conf.d/a.toml"), "").unwrap();
        });
        changes("no drop-in", &|dir| fs::rename(dir.join("conf.d"), dir.join("away")).unwrap());
        // As the kubelet writes a ConfigMap: a link to a link to a directory, which is replaced.
        changes("a link", &|dir| {
            fs::create_dir_all(dir.join("one")).unwrap();
            fs::rename(dir.join("kubegc.toml"), dir.join("one/kubegc.toml")).unwrap();
            symlink("one", dir.join("..data")).unwrap();
            symlink("..data/kubegc.toml", dir.join("kubegc.toml")).unwrap();
        });
        changes("another directory behind the link", &|dir| {
            fs::create_dir_all(dir.join("two")).unwrap();
            fs::write(dir.join("two/kubegc.toml"), "mode = \"collect\"").unwrap();
            symlink("two", dir.join("..data_tmp")).unwrap();
            fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
        });
        assert!(known.has_main());
        let other = |dir: &Path| fs::write(dir.join("conf.txt"), "").unwrap();
        other(dir.path());
        assert_eq!(known, known.find_again(), "a file that is not read");
    }
}
