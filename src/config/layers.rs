//! The values from all sources, not yet checked: a flat list of keys and values, in which later values override earlier
//! ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::Environment;
use super::declarations::KEYS;
use super::entry::Entry;
use super::error::{ConfigFault, Origin};
use super::key::Key;
use super::keys;
use super::kubelet::{self, KubeletFiles};
use super::sockets::OtherSockets;

/// The default configuration file. It is optional.
const DEFAULT_FILE: &str = "/etc/kubegc/kubegc.toml";

/// The input from the command line.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Typed {
    /// `--config`: replaces the default file; it must exist.
    pub config: Option<PathBuf>,
    /// `--kubelet-config`: a `KubeletConfiguration`; it must exist.
    pub kubelet_config: Option<PathBuf>,
    /// `--kubelet-config-dir`: its drop-in directory; it must exist. `None` = the one beside it, if there is one.
    pub kubelet_config_dir: Option<PathBuf>,
    /// Flags that set a key, by their names in [`KEYS`], and their values.
    pub flags: Vec<(&'static str, String)>,
    /// `--set key=value`.
    pub set: Vec<String>,
}

/// All values, in order of precedence.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// Values, the lowest precedence first.
    pub(super) entries: Vec<Entry>,
    /// Faults of sources that cannot be read.
    pub(super) faults: Vec<ConfigFault>,
    /// The sockets in the kubelet's files, if some were given and read.
    pub(super) kubelet: OtherSockets,
    /// What is allowed and doubtful.
    pub(super) warnings: Vec<String>,
}

// === impl Layers ===

impl Layers {
    /// Reads all sources. The order here is the order of precedence.
    pub(super) fn read(typed: &Typed, environment: &Environment) -> Self {
        let mut layers = Self::default();
        layers.host_name();
        // Below kubegc's own files: if a kubelet leaves images to kubegc, its own image collection is off.
        layers.kubelet(typed);
        layers.files(main_file(typed, environment), named_file(typed, environment).is_some());
        layers.environment(environment);
        layers.flags(&typed.flags);
        layers.set(&typed.set);
        layers
    }

    fn push(&mut self, key: &str, value: impl Into<Value>, origin: Origin) {
        self.entries.push(Entry { key: key.to_owned(), value: value.into(), origin, line: None });
    }

    fn host_name(&mut self) {
        if let Some(name) = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()) {
            self.push("node", name, Origin::HostName);
        }
    }

    fn kubelet(&mut self, typed: &Typed) {
        let mut files = KubeletFiles::default();
        let drop_ins = kubelet_drop_ins(typed);
        let drop_ins = drop_ins.unwrap_or_else(|(directory, error)| {
            self.unreadable(&directory, &error);
            Vec::new()
        });
        for path in typed.kubelet_config.iter().chain(&drop_ins) {
            match std::fs::read_to_string(path) {
                Ok(text) => files.add(path, &text),
                Err(error) => self.unreadable(path, &error),
            }
        }
        self.entries.extend(files.entries());
        self.kubelet = OtherSockets::of_kubelet(&files);
        self.faults.extend(files.faults);
        self.warnings.extend(files.warnings);
    }

    fn files(&mut self, main: &Path, is_named: bool) {
        match std::fs::read_to_string(main) {
            Ok(text) => self.toml(main, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => {}
            Err(error) => self.unreadable(main, &error),
        }
        let beside = drop_in_dir(main);
        match drop_ins(&beside) {
            Ok(paths) => paths.iter().for_each(|path| match std::fs::read_to_string(path) {
                Ok(text) => self.toml(path, &text),
                Err(error) => self.unreadable(path, &error),
            }),
            Err(error) => self.unreadable(&beside, &error),
        }
    }

    fn unreadable(&mut self, path: &Path, error: &std::io::Error) {
        self.faults.push(ConfigFault::whole(Origin::File(path.to_owned()), format!("cannot be read: {error}")));
    }

    /// Splits the text of a file into dotted keys.
    pub(super) fn toml(&mut self, path: &Path, text: &str) {
        let origin = Origin::File(path.to_owned());
        match text.parse::<Table>() {
            Ok(table) => flatten(&mut self.entries, "", table, &Source { origin, lines: lines(text) }),
            Err(error) => {
                self.faults.push(ConfigFault::whole(origin, format!("not TOML: {}", error.to_string().trim_end())));
            }
        }
    }

    fn environment(&mut self, environment: &Environment) {
        for (variable, key, value) in environment.settings() {
            self.push(key, value, Origin::Environment(variable));
        }
    }

    fn flags(&mut self, flags: &[(&'static str, String)]) {
        for (flag, value) in flags {
            if let Some(key) = KEYS.iter().find(|key| key.flags.contains(flag)) {
                self.push(key.name, typed(Some(key), value), Origin::Flag(flag));
            }
        }
    }

    fn set(&mut self, set: &[String]) {
        for text in set {
            match text.split_once('=') {
                Some((key, value)) => {
                    let (key, value) = (key.trim(), value.trim());
                    self.push(key, typed(keys::find(key), value), Origin::Set);
                }
                None => self.faults.push(ConfigFault::whole(Origin::Set, format!("{text:?} is not key=value"))),
            }
        }
    }
}

/// Returns the configuration file that the command line or the environment names.
fn named_file<'a>(typed: &'a Typed, environment: &'a Environment) -> Option<&'a Path> {
    typed.config.as_deref().or(environment.config.as_deref())
}

/// Returns the configuration file. It need not exist.
pub(super) fn main_file<'a>(typed: &'a Typed, environment: &'a Environment) -> &'a Path {
    named_file(typed, environment).unwrap_or(Path::new(DEFAULT_FILE))
}

/// Lists the kubelet's drop-in files.
///
/// # Errors
/// The directory cannot be read, or it was named and does not exist.
pub(super) fn kubelet_drop_ins(typed: &Typed) -> Result<Vec<PathBuf>, (PathBuf, std::io::Error)> {
    let beside = typed.kubelet_config.as_ref().map(|file| file.with_added_extension("d"));
    let directory = typed.kubelet_config_dir.clone().or(beside.filter(|directory| directory.is_dir()));
    directory.map_or(Ok(Vec::new()), |directory| kubelet::drop_ins(&directory).map_err(|error| (directory, error)))
}

/// Returns the drop-in directory beside the configuration file.
pub(super) fn drop_in_dir(main: &Path) -> PathBuf {
    main.parent().unwrap_or(Path::new("")).join("conf.d")
}

/// Lists the files of a drop-in directory, sorted by name; none if the directory does not exist.
pub(super) fn drop_ins(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    // Hidden files include the swap files of editors.
    paths.retain(|path| path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b".")));
    paths.sort();
    Ok(paths)
}

/// A file, and the line of each of its keys.
struct Source {
    origin: Origin,
    lines: BTreeMap<String, usize>,
}

/// Returns the line of each dotted key of a TOML text, from 1.
fn lines(text: &str) -> BTreeMap<String, usize> {
    fn walk(table: &DeTable, prefix: &str, text: &str, lines: &mut BTreeMap<String, usize>) {
        for (name, value) in table {
            let key = format!("{prefix}{}", name.get_ref());
            if let DeValue::Table(inner) = value.get_ref() {
                walk(inner, &format!("{key}."), text, lines);
            }
            let before = text.get(..name.span().start).unwrap_or_default();
            lines.insert(key, 1 + before.matches('\n').count());
        }
    }
    let mut lines = BTreeMap::new();
    if let Ok(table) = DeTable::parse(text) {
        walk(table.get_ref(), "", text, &mut lines);
    }
    lines
}

/// Appends the leaves of a table. A table in place of a value, and an empty table, are kept as they are: the check
/// against the known keys rejects them.
fn flatten(entries: &mut Vec<Entry>, prefix: &str, table: Table, source: &Source) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match value {
            Value::Table(inner) if !inner.is_empty() => flatten(entries, &format!("{key}."), inner, source),
            Value::Table(_) if is_section(&key) => {}
            value => {
                let line = source.lines.get(&key).copied();
                entries.push(Entry { key, value, origin: source.origin.clone(), line });
            }
        }
    }
}

/// Returns whether keys begin with this name and a dot.
pub(super) fn is_section(key: &str) -> bool {
    KEYS.iter().any(|known| known.name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

/// Parses a value from the command line: as TOML if possible, otherwise as a string, so that neither `2m` nor `85`
/// needs quotes. A text setting also takes a number as text: a node may be named `12345`.
fn typed(key: Option<&Key>, text: &str) -> Value {
    let value = text.parse().unwrap_or_else(|_| text.into());
    if key.is_some_and(|key| !key.takes(&value)) { text.into() } else { value }
}
