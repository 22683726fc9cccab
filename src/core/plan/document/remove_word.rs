//! The reasons to remove by their words alone, as metrics and the history have them.

use super::action::Kind;
use super::reason::RemoveReason;
pub use super::reason::RemoveWord;

// === impl RemoveReason ===

impl RemoveReason {
    /// Returns the word in documents and metrics.
    pub fn kind(&self) -> &'static str {
        self.word().as_str()
    }

    /// Returns the reason without its values.
    pub fn word(&self) -> RemoveWord {
        self.into()
    }
}

// === impl RemoveWord ===

impl RemoveWord {
    /// Returns the word in documents and metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the kinds of objects that are removed for it.
    pub fn kinds(self) -> &'static [Kind] {
        use Kind::{Container, Image, Leftover, LogDir, LogFile, LogLink, Sandbox};
        match self {
            Self::PodDeleted => &[Container, Sandbox, LogDir, LogFile, Leftover],
            Self::PodTerminal => &[Container, Sandbox, LogDir, LogFile],
            Self::OverMaxPerPodContainer => &[Container, LogFile],
            Self::OverTotalLimit => &[Container],
            Self::Superseded => &[Sandbox],
            Self::Dangling => &[LogLink],
            Self::Space | Self::Target | Self::Unused => &[Leftover, Image],
            Self::Age | Self::Listed | Self::Named => &[Image],
            Self::OverLogLimit | Self::OverArchiveLimit => &[LogFile],
            Self::Rule => &[Container, LogFile, Leftover, Image],
            Self::InstanceGone | Self::Unreferenced => &[Leftover],
        }
    }

    /// Returns the phrase of the reason without its values and what asked for it, which differ between the removals of a day.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::PodDeleted => "pod deleted",
            Self::PodTerminal => "pod terminated",
            Self::OverMaxPerPodContainer => "over containers.max_per_pod_container",
            Self::OverTotalLimit => "over containers.max_containers",
            Self::Superseded => "pod has a newer sandbox",
            Self::Dangling => "dangling symlink",
            Self::Space => "disk usage",
            Self::Target => "images.targets",
            Self::Age => "over images.max_age",
            Self::OverLogLimit => "over logs.limits",
            Self::OverArchiveLimit => "over logs.archive",
            Self::Rule => "rule",
            Self::Unused => "unused",
            Self::InstanceGone => "instance gone",
            Self::Unreferenced => "unreferenced",
            Self::Listed => "removed by list (--remove-list)",
            Self::Named => "named in the command",
        }
    }
}
