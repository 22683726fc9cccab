//! Where the files of a rig's containerd are: on the disk of the temporary directory, or on a small disk of its own
//! that can fill up.

use std::path::Path;
use std::process::Command;

/// Creates a plain directory.
pub fn plain(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
}

/// Mounts an ext4 of `mib` MiB on the directory. The cell unmounts it.
pub fn small(dir: &Path, mib: u64) {
    let image = dir.with_extension("ext4");
    std::fs::create_dir_all(dir).unwrap();
    std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
    // No blocks are reserved for root and there is no journal, so the used space of statvfs is what containerd wrote.
    run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-O", "^has_journal"]).arg(&image));
    // Nothing waits for the real disk beneath: the small one need not survive a power failure.
    run(Command::new("mount").args(["-o", "loop,barrier=0"]).arg(&image).arg(dir));
}

/// Runs a command that must succeed, and returns its output.
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; scripts/setup.sh installs what is missing"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    String::from_utf8(output.stdout).unwrap()
}
