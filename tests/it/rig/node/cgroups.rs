//! The cgroup of a node.

use std::path::{Path, PathBuf};

/// Creates a cgroup in every hierarchy of the machine. The cell removes it with all that is below it.
pub(super) fn create(cgroup: &str) {
    let top = Path::new("/sys/fs/cgroup");
    let hierarchies = if is_hierarchy(top) { vec![top.to_owned()] } else { dirs(top) }; // cgroup v2, or v1
    for hierarchy in hierarchies.iter().filter(|dir| is_hierarchy(dir)) {
        std::fs::create_dir(hierarchy.join(cgroup.trim_start_matches('/'))).unwrap();
    }
}

/// Returns the directories in a directory, without links to them.
fn dirs(top: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(top).unwrap().map(Result::unwrap);
    entries.filter(|entry| entry.file_type().unwrap().is_dir()).map(|entry| entry.path()).collect()
}

fn is_hierarchy(dir: &Path) -> bool {
    dir.join("cgroup.procs").exists()
}
