//! Limits on log files as text and as data.

use std::time::Duration;

use humantime::parse_duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::model::{PodRef, PodUid, bytes_of_text, duration_text, exact_size_text};

/// The longest time that a file can stay.
const LONGEST: Duration = Duration::from_hours(10 * 365 * 24);

/// A limit on the bytes of log files, as `logs.limits` has it.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
pub struct LogLimit {
    /// What may have so many.
    pub limit_of: LimitOf,
    /// The most bytes.
    pub limit_bytes: u64,
}

/// A limit on what only the archive has, as `logs.archive` has it. In their order the limits apply.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd)]
#[schemars(with = "String")]
pub enum ArchiveLimit {
    /// How long a file stays after its pod lost it.
    Keep(Duration),
    /// The most bytes.
    Bytes(LogLimit),
}

/// What a limit on log files is for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[derive(Deserialize, EnumString, IntoStaticStr, JsonSchema, Serialize, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LimitOf {
    /// Each pod.
    Pod,
    /// All pods of a namespace together.
    Namespace,
    /// All pods of the node together.
    Node,
}

// === impl LimitOf ===

impl LimitOf {
    /// Returns the name of what a pod counts for, and the uid where the name is not unique.
    pub fn group(self, pod: &PodRef, node: &str) -> (String, PodUid) {
        match self {
            Self::Pod => (pod.to_string(), pod.uid.clone()),
            Self::Namespace => (pod.namespace.clone(), PodUid::default()),
            Self::Node => (node.to_owned(), PodUid::default()),
        }
    }
}

// === impl LogLimit ===

impl LogLimit {
    /// A regular expression for its text.
    pub const PATTERN: &str = "^(pod|namespace|node) [0-9]+[KMGT]?i?B?$";

    /// Returns one that every log file exceeds.
    pub(in crate::plan) fn exceeded() -> Self {
        Self { limit_of: LimitOf::Pod, limit_bytes: 0 }
    }
}

/// As in the settings. The error says what is wrong.
impl std::str::FromStr for LogLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |(of, bytes): (&str, &str)| {
            let limit_bytes = bytes_of_text(bytes.trim()).filter(|bytes| *bytes > 0)?;
            Some(Self { limit_of: of.parse().ok()?, limit_bytes })
        };
        let forms = "\"pod BYTES\", \"namespace BYTES\" or \"node BYTES\", such as \"pod 200MiB\"";
        text.split_once(' ').and_then(read).ok_or_else(|| format!("{text:?} is not a limit: expected {forms}"))
    }
}

/// As in the settings.
impl std::fmt::Display for LogLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", <&str>::from(self.limit_of), exact_size_text(self.limit_bytes))
    }
}

// === impl ArchiveLimit ===

impl ArchiveLimit {
    /// A regular expression for its text.
    pub const PATTERN: &str = "^keep .+$|^(pod|namespace|node) [0-9]+[KMGT]?i?B?$";
}

/// As in the settings. The error says what is wrong.
impl std::str::FromStr for ArchiveLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_allowed = |time: &Duration| *time > Duration::ZERO && *time <= LONGEST;
        let keep = |time: &str| parse_duration(time.trim()).ok().filter(is_allowed).map(Self::Keep);
        let limit = text.strip_prefix("keep ").map_or_else(|| text.parse().ok().map(Self::Bytes), keep);
        let forms = "\"keep TIME\" up to ten years, \"pod BYTES\", \"namespace BYTES\" or \"node BYTES\"";
        limit.ok_or_else(|| format!("{text:?} is not a limit: expected {forms}"))
    }
}

/// As in the settings.
impl std::fmt::Display for ArchiveLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Keep(time) => write!(f, "keep {}", duration_text(*time)),
            Self::Bytes(limit) => limit.fmt(f),
        }
    }
}
