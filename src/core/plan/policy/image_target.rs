//! A target for images besides the thresholds, as text and as data.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{exact_range_text, range_of_text, size_text};

/// A target for images besides the thresholds, as `images.targets` has it.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(tag = "target", rename_all = "snake_case")]
pub enum ImageTarget {
    /// Removal begins below so many free bytes, and ends at more.
    Free {
        /// Where it begins.
        below_bytes: u64,
        /// Where it ends.
        until_bytes: u64,
    },
    /// Removal begins at a percentage of used inodes, and ends at a lower one.
    Inodes {
        /// Where it begins.
        from_percent: u64,
        /// Where it ends.
        until_percent: u64,
    },
    /// Removal begins if all images together have more bytes, and ends at less.
    Total {
        /// Where it begins.
        above_bytes: u64,
        /// Where it ends.
        until_bytes: u64,
    },
}

// === impl ImageTarget ===

impl ImageTarget {
    /// A regular expression for its text.
    pub const PATTERN: &str = "^(free|total) [0-9]+[KMGT]?i?B?\\.\\.[0-9]+[KMGT]?i?B?$|^inodes [0-9]+%\\.\\.[0-9]+%$";

    /// Returns the state of what the target is about, as a text: `8.0GiB free`.
    pub fn state(self, value: u64) -> String {
        match self {
            Self::Free { .. } => format!("{} free", size_text(value)),
            Self::Inodes { .. } => format!("{value}% of inodes used"),
            Self::Total { .. } => format!("{} of images", size_text(value)),
        }
    }
}

/// As in the settings: what it is about, where removal begins, and where it ends. The error says what is wrong.
impl FromStr for ImageTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let forms = "\"free BYTES..MORE\", \"inodes PERCENT%..LESS%\" or \"total BYTES..LESS\"";
        let ends = "where removal begins and where it ends, which is more than 0";
        read(text).ok_or_else(|| format!("{text:?} is not a target: expected {forms}, {ends}"))
    }
}

fn read(text: &str) -> Option<ImageTarget> {
    let (what, limits) = text.split_once(' ')?;
    let percent = |text: &str| text.trim().strip_suffix('%')?.parse().ok().filter(|percent: &u64| *percent <= 100);
    let percents = |(begin, end): (&str, &str)| Some((percent(begin)?, percent(end)?));
    let read_percents = |limits: &str| limits.split_once("..").and_then(percents);
    let (begin, end) = if what == "inodes" { read_percents(limits) } else { range_of_text(limits) }?;
    let falls = begin > end && end > 0;
    match what {
        "free" if begin < end => Some(ImageTarget::Free { below_bytes: begin, until_bytes: end }),
        "total" if falls => Some(ImageTarget::Total { above_bytes: begin, until_bytes: end }),
        "inodes" if falls => Some(ImageTarget::Inodes { from_percent: begin, until_percent: end }),
        _ => None,
    }
}

/// As in the settings.
impl std::fmt::Display for ImageTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Free { below_bytes, until_bytes } => {
                write!(f, "free {}", exact_range_text(*below_bytes, *until_bytes))
            }
            Self::Inodes { from_percent, until_percent } => write!(f, "inodes {from_percent}%..{until_percent}%"),
            Self::Total { above_bytes, until_bytes } => {
                write!(f, "total {}", exact_range_text(*above_bytes, *until_bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_ends_beyond_where_it_begins() {
        for right in ["free 10GiB..20GiB", "inodes 90%..80%", "total 2GiB..1GiB"] {
            assert_eq!(right.parse::<ImageTarget>().unwrap().to_string(), right);
        }
        for wrong in [
            "free 20GiB..10GiB",
            "free 10GiB..10GiB",
            "inodes 80%..90%",
            "inodes 80%..80%",
            "inodes 80%..0%",
            "inodes 101%..80%",
            "total 1GiB..2GiB",
            "total 1GiB..1GiB",
            "total 1GiB..0GiB",
            "layers 2..1",
        ] {
            assert!(wrong.parse::<ImageTarget>().is_err(), "{wrong}");
        }
    }
}
