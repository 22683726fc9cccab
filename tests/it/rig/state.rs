//! Everything on a rig that a pass could change, to compare before and after.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::mem::take;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Rig;

/// One state, as lines: the runtime's lists, its images as its own tool lists them, and the log trees with all bytes.
/// The blobs of the images are left out: containerd removes some at any time after an import.
#[derive(Clone)]
pub struct RigState(BTreeSet<String>);

// === impl Rig ===

impl Rig {
    /// Reads the state.
    pub async fn contents(&self) -> RigState {
        let mut seen = lines(self.list_containers().await, |it| vec![take(&mut it.labels), take(&mut it.annotations)]);
        seen.extend(lines(self.list_sandboxes().await, |it| vec![take(&mut it.labels), take(&mut it.annotations)]));
        seen.extend(lines(self.list_images().await, |_| Vec::new()));
        if self.has_ctr() {
            seen.extend(self.ctr(&["images", "list"]).lines().map(str::to_owned));
        }
        for root in [self.pod_logs(), self.container_logs()] {
            walk(&root, &mut seen);
        }
        RigState(seen.into_iter().collect())
    }

    /// Returns what has changed since: `- ` for removed lines, `+ ` for added lines.
    pub async fn changes_since(&self, before: &RigState) -> Vec<String> {
        let now = self.contents().await;
        let went = before.0.difference(&now.0).map(|line| format!("- {line}"));
        went.chain(now.0.difference(&before.0).map(|line| format!("+ {line}"))).collect()
    }
}

/// Returns one line for each object. Maps are taken out and sorted: they print in any order.
fn lines<T: Debug>(objects: Vec<T>, maps: impl Fn(&mut T) -> Vec<HashMap<String, String>>) -> Vec<String> {
    let line = |mut object: T| {
        let maps: Vec<BTreeMap<_, _>> = maps(&mut object).into_iter().map(BTreeMap::from_iter).collect();
        format!("{object:?} {maps:?}")
    };
    objects.into_iter().map(line).collect()
}

/// Adds one line for each entry beneath `path`: its type, its modification time, its content.
fn walk(path: &Path, lines: &mut Vec<String>) {
    let entry = path.symlink_metadata().unwrap();
    let content = if entry.is_dir() {
        for child in std::fs::read_dir(path).unwrap() {
            walk(&child.unwrap().path(), lines);
        }
        String::new()
    } else if entry.is_symlink() {
        path.read_link().unwrap().display().to_string()
    } else {
        String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
    };
    let (mode, inode, changed) = (entry.mode(), entry.ino(), (entry.mtime(), entry.mtime_nsec()));
    lines.push(format!("{} {mode:o} {inode} {changed:?} {content:?}", path.display()));
}
