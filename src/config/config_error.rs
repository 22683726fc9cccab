//! Faults of the configuration. All are reported at once, each with its source, its value and what is allowed.

use std::fmt;
use std::path::PathBuf;

use super::position::Position;
use super::rule_tables as rules;
use crate::plan::Profile;

/// The origin of a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    BuiltIn,
    /// The profile sets it.
    Profile(Profile),
    /// The host name of the machine.
    HostName,
    /// The configuration file of kubegc, or one from `conf.d`, and the position in it; `None` = unknown.
    File(PathBuf, Option<Position>),
    /// The file of the kubelet or of crictl, and its name of the setting.
    OtherProgram(PathBuf, &'static str),
    /// An environment variable.
    Environment(&'static str),
    /// A flag, by its name without dashes.
    Flag(&'static str),
    /// `--set`.
    Set,
    /// The search for a well-known socket that answers.
    Search,
    /// The search failed for this reason, so there is no value.
    NotFound(String),
    /// The value of another key.
    SameAs(&'static str),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigFault {
    /// The source of the value.
    pub origin: Origin,
    /// The key and the value from the source; `None` = the fault is in the source as a whole.
    pub written: Option<(String, String)>,
    /// What is allowed instead, or what is wrong.
    pub right: String,
}

#[derive(Debug, thiserror::Error)]
#[error("{}", list(faults))]
pub struct ConfigError {
    /// All faults, in the order of reading.
    pub faults: Vec<ConfigFault>,
}

// === impl Origin ===

impl Origin {
    /// The variable that names crictl's configuration.
    pub const CRICTL_VARIABLE: Self = Self::Environment("CRI_CONFIG_FILE");

    /// Returns whether the value is from the command line.
    pub fn is_command_line(&self) -> bool {
        matches!(self, Self::Flag(_) | Self::Set)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::Profile(profile) => write!(f, "profile {profile}"),
            Self::HostName => f.write_str("host name"),
            Self::File(path, _) => write!(f, "{}", path.display()),
            Self::OtherProgram(path, name) => write!(f, "{} ({name})", path.display()),
            Self::Environment(name) => write!(f, "${name}"),
            Self::Flag(name) => write!(f, "--{name}"),
            Self::Set => f.write_str("--set"),
            Self::Search => f.write_str("well-known socket"),
            Self::NotFound(cause) => f.write_str(cause),
            Self::SameAs(key) => write!(f, "as {key}"),
        }
    }
}

// === impl Fault ===

impl ConfigFault {
    /// Creates a fault of one value.
    pub(super) fn of(origin: Origin, key: &str, value: impl fmt::Display, right: impl Into<String>) -> Self {
        Self { origin, written: Some((key.to_owned(), value.to_string())), right: right.into() }
    }

    /// Creates a fault of a whole source.
    pub(super) fn whole(origin: Origin, right: impl Into<String>) -> Self {
        Self { origin, written: None, right: right.into() }
    }

    /// Returns the position in the file; `None` = unknown, or no file.
    pub fn position(&self) -> Option<Position> {
        if let Origin::File(_, position) = self.origin { position } else { None }
    }
}

/// The longest text of a value that is shown, in bytes. A longer one would hide what is said of it.
pub const MAX_SHOWN: usize = 120;

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.origin)?;
        self.position().map_or(Ok(()), |(line, column)| write!(f, "{line}:{column}:"))?;
        match &self.written {
            // What is said of a rule names the rule.
            Some((key, _)) if key == rules::KEY => write!(f, " {}", self.right),
            Some((key, value)) if value.len() > MAX_SHOWN => write!(f, " {key}: {}", self.right),
            Some((key, value)) => write!(f, " {key} = {value}: {}", self.right),
            None => write!(f, " {}", self.right),
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
