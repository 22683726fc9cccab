//! Where a rig's containerd has its files: on the disk of the temporary directory, or on a small disk of its own that
//! really fills up.

use std::path::Path;
use std::process::Command;

/// A plain directory.
pub fn plain(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
}

/// An ext4 of `mib` MiB, mounted on the directory. The cell unmounts it.
pub fn small(dir: &Path, mib: u64) {
    let image = dir.with_extension("ext4");
    std::fs::create_dir_all(dir).unwrap();
    std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
    // No blocks kept for root and no journal: what statvfs calls used is then what containerd wrote.
    run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-O", "^has_journal"]).arg(&image));
    // And nothing waits for the real disk beneath: the small one need not survive a power cut.
    run(Command::new("mount").args(["-o", "loop,barrier=0"]).arg(&image).arg(dir));
}

/// Runs a command that must succeed, and returns what it printed.
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; scripts/setup.sh installs what is missing"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    String::from_utf8(output.stdout).unwrap()
}
