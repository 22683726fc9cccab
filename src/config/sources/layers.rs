//! The values from all sources, not yet checked: a flat list of keys and values, in which later values override earlier
//! ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use toml::Value;
use toml::de::{DeTable, DeValue};

use super::files::{Unreadable, config_drop_ins, kubelet_drop_ins, main_file, read_regular};
use super::kubelet_config::KubeletFiles;
use super::kubelet_eviction;
use super::sockets::{self, Sockets};
use crate::config::config_error::{ConfigFault, Origin};
use crate::config::declarations::KEYS;
use crate::config::entry::Entry;
use crate::config::key::find;
use crate::config::{Environment, Settings, position};

/// The input from the command line.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Typed {
    /// `--config`: replaces the default file; it must exist.
    pub config: Option<PathBuf>,
    /// `--kubelet-config`: a `KubeletConfiguration`; it must exist.
    pub kubelet_config: Option<PathBuf>,
    /// `--kubelet-config-dir`: a drop-in directory, with such a file or alone; it must exist. `None` = the one beside the file, if there
    /// is one.
    pub kubelet_config_dir: Option<PathBuf>,
    /// Flags that set a key, by their names in [`KEYS`], and their values.
    pub flags: Vec<(&'static str, String)>,
    /// `--set key=value`.
    pub set: Vec<String>,
}

/// All values, in order of precedence.
#[derive(Debug, Default)]
pub(in crate::config) struct Layers {
    /// What holds for keys without a value.
    pub(in crate::config) base: Settings,
    /// Values, the lowest precedence first.
    pub(in crate::config) entries: Vec<Entry>,
    /// Faults of sources that cannot be read.
    pub(in crate::config) faults: Vec<ConfigFault>,
    /// The sockets in the kubelet's files, if some were given and read.
    pub(in crate::config) kubelet: Sockets,
    /// What is allowed and doubtful.
    pub(in crate::config) warnings: Vec<String>,
}

// === impl Layers ===

impl Layers {
    /// Reads all sources. The order here is the order of precedence.
    pub(in crate::config) fn read(typed: &Typed, environment: &Environment) -> Self {
        let mut layers = Self::default();
        if let Some(name) = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()) {
            layers.push("node", name.into(), Origin::HostName);
        }
        // Below kubegc's own files: if a kubelet leaves images to kubegc, its own image collection is off.
        layers.kubelet(typed);
        layers.files(typed, environment);
        for (variable, key, value) in environment.settings() {
            layers.push(key, value.into(), Origin::Environment(variable));
        }
        layers.command_line(typed);
        layers
    }

    fn push(&mut self, key: &str, value: Value, origin: Origin) {
        self.entries.push(Entry { key: key.to_owned(), value, origin, file: None });
    }

    fn kubelet(&mut self, typed: &Typed) {
        let mut files = KubeletFiles::default();
        let drop_ins = self.listed(kubelet_drop_ins(typed));
        if let Some(named) = typed.kubelet_config_dir.as_ref().filter(|_| drop_ins.is_empty() && self.faults.is_empty())
        {
            self.warnings.push(format!("{}: no file in it ends with .conf, so it sets nothing", named.display()));
        }
        for path in typed.kubelet_config.iter().chain(&drop_ins) {
            if let Some(text) = self.text(path) {
                files.add(path, &text);
            }
        }
        self.entries.extend(files.entries());
        self.kubelet = sockets::of_kubelet(&files);
        self.base.policy.eviction = kubelet_eviction::of_kubelet(&mut files);
        self.faults.extend(files.faults);
        self.warnings.extend(files.warnings);
    }

    fn files(&mut self, typed: &Typed, environment: &Environment) {
        let (main, is_named) = main_file(typed, environment);
        let exists = is_named || main.try_exists().unwrap_or(true);
        let drop_ins = self.listed(config_drop_ins(main));
        for path in exists.then_some(main).into_iter().chain(drop_ins.iter().map(PathBuf::as_path)) {
            if let Some(text) = self.text(path) {
                self.toml(path, &text);
            }
        }
    }

    /// Returns the files of a directory. That it cannot be listed is a fault.
    fn listed(&mut self, listed: Result<Vec<PathBuf>, Unreadable>) -> Vec<PathBuf> {
        listed.unwrap_or_else(|(directory, error)| {
            self.unreadable(directory, &error);
            Vec::new()
        })
    }

    /// Reads a file. That it cannot be read is a fault.
    fn text(&mut self, path: &Path) -> Option<String> {
        let (text, mode) = read_regular(path).map_err(|error| self.unreadable(path.to_owned(), &error)).ok()?;
        if mode & 0o002 != 0 {
            let path = path.display();
            self.warnings
                .push(format!("every user may write {path}, and so control what is removed; run `chmod o-w {path}`"));
        }
        Some(text)
    }

    fn unreadable(&mut self, path: PathBuf, error: &std::io::Error) {
        self.faults.push(ConfigFault::whole(Origin::File(path, None), format!("cannot be read: {error}")));
    }

    /// Splits the text of a file into dotted keys.
    pub(in crate::config) fn toml(&mut self, path: &Path, text: &str) {
        match DeTable::parse(text) {
            Ok(table) => self.flatten(path, &text.into(), "", table.into_inner()),
            Err(error) => {
                let position = error.span().map(|span| position::at(text, span.start));
                let right = format!("not TOML: {}", error.message());
                self.faults.push(ConfigFault::whole(Origin::File(path.to_owned(), position), right));
            }
        }
    }

    /// Appends the leaves of a table. A table in place of a value, and an empty table, are kept as they are: the check
    /// against the known keys rejects them.
    fn flatten(&mut self, path: &Path, text: &Arc<str>, prefix: &str, table: DeTable<'_>) {
        for (name, value) in table {
            let key = format!("{prefix}{}", name.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) if !inner.is_empty() => {
                    self.flatten(path, text, &format!("{key}."), inner.clone());
                }
                DeValue::Table(_) if is_section(&key) => {}
                _ => {
                    let origin = Origin::File(path.to_owned(), Some(position::at(text, name.span().start)));
                    match Value::deserialize(value.into_deserializer()) {
                        Ok(value) => self.entries.push(Entry { key, value, origin, file: Some(Arc::clone(text)) }),
                        Err(error) => self.faults.push(ConfigFault::whole(origin, error.to_string())),
                    }
                }
            }
        }
    }

    pub(in crate::config) fn command_line(&mut self, typed: &Typed) {
        for (flag, text) in &typed.flags {
            if let Some(key) = KEYS.iter().find(|key| key.flags.contains(flag)) {
                self.push(key.name, of_words(key.name, text), Origin::Flag(flag));
            }
        }
        for text in &typed.set {
            match text.split_once('=') {
                Some((key, value)) => self.push(key.trim(), of_words(key.trim(), value.trim()), Origin::Set),
                None => self.faults.push(ConfigFault::whole(Origin::Set, format!("{text:?} is not key=value"))),
            }
        }
    }
}

/// Returns whether keys begin with this name and a dot.
pub(in crate::config) fn is_section(key: &str) -> bool {
    KEYS.iter().any(|known| known.name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

/// Reads a value from the command line: as TOML if possible, otherwise as a string, so that neither `2m` nor `85` needs
/// quotes. It is a string too where only a string is allowed: a node may be named `12345`.
fn of_words(key: &str, text: &str) -> Value {
    let (string, value) = (Value::from(text), text.parse().unwrap_or_else(|_| text.into()));
    let is_text = value != string && find(key).is_some_and(|key| !key.allows(&value) && key.allows(&string));
    if is_text { string } else { value }
}
