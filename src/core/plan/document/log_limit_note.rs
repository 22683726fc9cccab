//! Which limits on log files a plan does not meet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{count_text, size_text};
use crate::plan::policy::log_limit::LogLimit;

/// A limit on log files that a plan does not meet, or that may be exceeded by what was not read.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct LogLimitNote {
    #[serde(flatten)]
    pub limit: LogLimit,
    /// The pod as namespace/name, the namespace, or the node.
    pub of: String,
    /// The bytes after the removals of the plan.
    pub bytes: u64,
    /// Whether more may be there, because not all files were read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The number of files that would be removed, and that a guard or a rule keeps.
    #[serde(default)]
    pub kept: u64,
    /// The other files that are left.
    #[serde(default)]
    pub left: FilesLeft,
    /// Of a limit of the node: the namespace that has the most of what is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<String>,
    /// A container whose log directory was not read to its end, as namespace/pod/container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// The log files that are left over a limit, by why.
#[derive(Clone, Copy, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct FilesLeft {
    /// Current files, which the kubelet rotates, and the only ones of an instance.
    pub current: u64,
    /// Rotated files that the kubelet may be compressing.
    pub compressing: u64,
    /// Rotated files of namespaces that have no more than their share of the limit.
    pub within_share: u64,
}

// === impl FilesLeft ===

impl FilesLeft {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            current: self.current + other.current,
            compressing: self.compressing + other.compressing,
            within_share: self.within_share + other.within_share,
        }
    }
}

// === impl LogLimitNote ===

impl LogLimitNote {
    /// Returns whether the limit is exceeded, as far as is known.
    pub fn is_over(&self) -> bool {
        self.bytes > self.limit.limit_bytes
    }
}

impl std::fmt::Display for LogLimitNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (of, least) = (<&str>::from(self.limit.limit_of), if self.at_least { "at least " } else { "" });
        let state = if self.is_over() { "over" } else { "under" };
        write!(
            f,
            "log files of {of} {} have {least}{}, {state} logs.limits ({})",
            self.of,
            size_text(self.bytes),
            self.limit
        )?;
        if self.at_least {
            f.write_str(": not all of them could be read")?;
            return self.unread.as_ref().map_or(Ok(()), |unread| write!(f, ", such as those of {unread}"));
        }
        let FilesLeft { current, compressing, within_share } = self.left;
        let left = [
            (current, "current file", ""),
            (compressing, "file", " in compression"),
            (within_share, "file", " of namespaces within their share"),
            (self.kept, "file", " kept"),
        ];
        let left = left.into_iter().filter(|(count, ..)| *count > 0);
        let left: Vec<_> = left.map(|(count, file, what)| count_text(count, file) + what).collect();
        write!(f, ": what is left: {}", left.join(", "))?;
        self.most.as_ref().map_or(Ok(()), |namespace| write!(f, ", most of namespace {namespace}"))
    }
}
