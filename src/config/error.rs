//! What is wrong with the configuration: all of it at once, each with where, what, and what would be right.

use std::fmt;
use std::path::PathBuf;

use crate::plan::Profile;

/// Where a value comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// Nobody set it.
    BuiltIn,
    /// The profile decides it.
    Profile(Profile),
    /// The machine's own name for itself.
    HostName,
    /// Our configuration file, or one from `conf.d`.
    File(PathBuf),
    /// The kubelet's file, and its own name for the setting.
    Kubelet(PathBuf, &'static str),
    /// An environment variable.
    Environment(&'static str),
    /// A flag, by its name without dashes.
    Flag(&'static str),
    /// `--set`.
    Set,
}

/// One fault.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigFault {
    /// Where it was written.
    pub origin: Origin,
    /// The key and the value as written; `None` = the fault is in the whole.
    pub written: Option<(String, String)>,
    /// What would be right.
    pub right: String,
}

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", list(faults))]
pub struct ConfigError {
    /// Everything that is wrong with it, in the order in which it was read.
    pub faults: Vec<ConfigFault>,
}

// === impl Origin ===

impl Origin {
    /// Says whether it was typed for this one run.
    pub(super) fn is_command_line(&self) -> bool {
        matches!(self, Self::Flag(_) | Self::Set)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::Profile(profile) => write!(f, "profile {profile}"),
            Self::HostName => f.write_str("host name"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Kubelet(path, name) => write!(f, "{} ({name})", path.display()),
            Self::Environment(name) => write!(f, "${name}"),
            Self::Flag(name) => write!(f, "--{name}"),
            Self::Set => f.write_str("--set"),
        }
    }
}

// === impl Fault ===

impl ConfigFault {
    /// A value that is not what is wanted.
    pub(super) fn of(origin: Origin, key: &str, value: impl fmt::Display, right: impl Into<String>) -> Self {
        Self { origin, written: Some((key.to_owned(), value.to_string())), right: right.into() }
    }

    /// A source that is wrong as a whole.
    pub(super) fn whole(origin: Origin, right: impl Into<String>) -> Self {
        Self { origin, written: None, right: right.into() }
    }
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.written {
            Some((key, value)) => write!(f, "{}: {key} = {value}: {}", self.origin, self.right),
            None => write!(f, "{}: {}", self.origin, self.right),
        }
    }
}

fn list(faults: &[ConfigFault]) -> String {
    match faults {
        [one] => one.to_string(),
        many => {
            let lines: Vec<_> = many.iter().map(|fault| format!("\n  {fault}")).collect();
            format!("{} faults in the configuration:{}", many.len(), lines.concat())
        }
    }
}
