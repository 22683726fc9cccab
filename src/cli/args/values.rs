//! Types of other rooms as values of flags.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::owners::Propagation;
use crate::plan::{Kind, Scope};

/// Returns the word for a kind in flags and in references to objects, as `log-dir/NAME`.
pub(in crate::cli) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::LogDir => "log-dir",
        Kind::LogFile => "log-file",
        Kind::LogLink => "log-link",
        kind => kind.as_str(),
    }
}

impl ValueEnum for Kind {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Container => "Containers",
            Self::Sandbox => "Sandboxes",
            Self::LogDir => "Log directories",
            Self::LogFile => "Log files",
            Self::LogLink => "Log links",
            Self::Leftover => "Leftovers in the kubelet's directory",
            Self::Image => "Images",
        };
        Some(PossibleValue::new(word(*self)).help(help))
    }
}

impl ValueEnum for Scope {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Containers, Self::Images, Self::All]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Containers => "Containers, sandboxes and logs",
            Self::Images => "Images",
            Self::All => "Everything",
        };
        Some(PossibleValue::new(self.as_str()).help(help))
    }
}

impl ValueEnum for Propagation {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Background, Self::Foreground, Self::Orphan]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Background => ("background", "Delete the dependents afterward"),
            Self::Foreground => ("foreground", "Delete the dependents first"),
            Self::Orphan => ("orphan", "Keep the dependents, without the reference"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}
