//! Commands that pull removed images again.

use std::collections::HashSet;

use crate::cli::render::format;
use crate::plan::Kind;
use crate::record::HistoryEntry;

/// Returns a command for each name of each removed image. A name that is no reference becomes a comment, because a shell runs the lines.
pub(super) fn of(entries: &[HistoryEntry]) -> String {
    let is_reference = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
    };
    let removed = entries.iter().filter(|entry| entry.kind == Kind::Image && entry.outcome == "removed");
    let lines = removed.flat_map(|entry| {
        let unnamed = entry.tags.is_empty().then(|| format!("# {} had no tag\n", format::printable(&entry.id)));
        let line = |name: &String| {
            if is_reference(name) {
                format!("crictl pull {name}\n")
            } else {
                format!("# no reference: {}\n", format::printable(name))
            }
        };
        entry.tags.iter().map(line).chain(unnamed).collect::<Vec<_>>()
    });
    let mut known = HashSet::new();
    lines.filter(|line| known.insert(line.clone())).collect()
}
