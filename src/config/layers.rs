//! What was written where, before anyone asks what it means: a flat list of keys and values, the later over the earlier.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::error::{ConfigFault, Origin};
use super::keys::{self, KEYS, Key};
use super::{Environment, kubelet};

/// The file that is read where no other is named. It need not be there.
const DEFAULT_FILE: &str = "/etc/kubegc/kubegc.toml";
/// The host's name, as the kernel knows it.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// What the command line says, as typed.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    /// `--config`: read instead of the default file; it must be there.
    pub config: Option<PathBuf>,
    /// `--kubelet-config`: a `KubeletConfiguration`; it must be there.
    pub kubelet_config: Option<PathBuf>,
    /// Flags that mean a key, by their names in [`KEYS`], and their values.
    pub flags: Vec<(&'static str, String)>,
    /// `--set key=value`.
    pub set: Vec<String>,
}

/// One value as written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// The dotted key.
    pub(super) key: String,
    /// The value, of whatever type.
    pub(super) value: Value,
    /// Where it was written.
    pub(super) origin: Origin,
}

/// All that was written, in order.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// Values, the weakest first.
    pub(super) entries: Vec<Entry>,
    /// What could not even be read.
    pub(super) faults: Vec<ConfigFault>,
    /// The text of the kubelet's file, where one was named and read.
    pub(super) kubelet: Option<String>,
}

// === impl Layers ===

impl Layers {
    /// Reads everything. The order here is the order of precedence.
    pub(super) fn read(typed: &Typed, environment: &Environment) -> Self {
        let mut layers = Self::default();
        layers.host_name();
        // Below our own files: a kubelet that leaves images to us has its own collection turned off.
        layers.kubelet(typed.kubelet_config.as_deref());
        layers.files(typed.config.as_deref().or(environment.config.as_deref()));
        layers.environment(environment);
        layers.flags(&typed.flags);
        layers.set(&typed.set);
        layers
    }

    fn push(&mut self, key: &str, value: impl Into<Value>, origin: Origin) {
        self.entries.push(Entry { key: key.to_owned(), value: value.into(), origin });
    }

    fn host_name(&mut self) {
        if let Ok(name) = std::fs::read_to_string(HOST_NAME) {
            self.push("node", name.trim(), Origin::HostName);
        }
    }

    fn kubelet(&mut self, path: Option<&Path>) {
        let Some(path) = path else { return };
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let (entries, faults) = kubelet::entries(path, &text);
                self.entries.extend(entries);
                self.faults.extend(faults);
                self.kubelet = Some(text);
            }
            Err(error) => self.unreadable(path, &error),
        }
    }

    fn files(&mut self, named: Option<&Path>) {
        let main = named.unwrap_or(Path::new(DEFAULT_FILE));
        match std::fs::read_to_string(main) {
            Ok(text) => self.toml(main, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => {}
            Err(error) => self.unreadable(main, &error),
        }
        let beside = main.parent().unwrap_or(Path::new("")).join("conf.d");
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

    /// Takes a file's text apart into dotted keys.
    pub(super) fn toml(&mut self, path: &Path, text: &str) {
        let origin = Origin::File(path.to_owned());
        match text.parse::<Table>() {
            Ok(table) => flatten(&mut self.entries, "", table, &origin),
            Err(error) => {
                self.faults.push(ConfigFault::whole(origin, format!("not TOML: {}", error.to_string().trim_end())))
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

/// The files of a drop-in directory in the order of their names; none where there is no such directory.
fn drop_ins(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    // An editor's swap file is hidden.
    paths.retain(|path| path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b".")));
    paths.sort();
    Ok(paths)
}

/// Appends the leaves of a table. A table in the place of a value, and an empty table, stay as they are: whoever knows
/// the keys refuses them.
fn flatten(entries: &mut Vec<Entry>, prefix: &str, table: Table, origin: &Origin) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match value {
            Value::Table(inner) if !inner.is_empty() => flatten(entries, &format!("{key}."), inner, origin),
            Value::Table(_) if is_section(&key) => {}
            value => entries.push(Entry { key, value, origin: origin.clone() }),
        }
    }
}

/// Says whether keys begin with this name and a dot.
pub(super) fn is_section(key: &str) -> bool {
    KEYS.iter().any(|known| known.name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

/// Reads what the command line gives: TOML where it parses as such, a string otherwise, so that neither `2m` nor `85` needs
/// quotes. Where the key wants text, what looks like a number is text too: a node may be named `12345`.
fn typed(key: Option<&Key>, text: &str) -> Value {
    let value = text.parse().unwrap_or_else(|_| text.into());
    if key.is_some_and(|key| !key.can_be(&value)) { text.into() } else { value }
}
