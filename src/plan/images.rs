//! Unused images: by age, and least recently used first between the high and the low threshold.

use std::time::Duration;

/// When images go (kubelet settings of the same meaning).
#[derive(Clone, Debug, PartialEq)]
pub struct ImagePolicy {
    /// Used space in percent at which images begin to go. Range 0 to 100, default 85; 100 = never, unless `max_age` is set.
    pub high_threshold_percent: u64,
    /// Used space in percent at which it stops. Range 0 to the high threshold, default 80.
    pub low_threshold_percent: u64,
    /// Images first seen less long ago stay. Default 2 min.
    pub min_age: Duration,
    /// Images unused for longer go whatever the disk says. Default 0 = off.
    pub max_age: Duration,
    /// Names that stay: `*` stands for any text. Default none.
    pub keep: Vec<Pattern>,
    /// Every unused image goes, as in the kubelet's answer to disk pressure. Default off.
    pub all_unused: bool,
}

/// A keep pattern: a name with `*` for any text, compared with tags, digests and ids.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern(String);

// === impl ImagePolicy ===

impl Default for ImagePolicy {
    fn default() -> Self {
        Self {
            high_threshold_percent: 85,
            low_threshold_percent: 80,
            min_age: Duration::from_mins(2),
            max_age: Duration::ZERO,
            keep: Vec::new(),
            all_unused: false,
        }
    }
}

// === impl Pattern ===

impl Pattern {
    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Says whether the whole of `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|head| name.strip_prefix(head)) else { return false };
        let Some(tail) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(tail)
    }
}

impl From<&str> for Pattern {
    fn from(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }
}
