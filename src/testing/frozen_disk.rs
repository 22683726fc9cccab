//! A file system that a test freezes with `fsfreeze`. Reads work there. Every write blocks in the kernel until the disk
//! is thawed.

#![expect(clippy::disallowed_methods, reason = "a test runs the tools of the system")]

use std::fs::File;
use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

const NONE: Option<&str> = None;

/// A frozen file system. Dropping it thaws it.
pub(crate) struct Frozen<'a>(&'a Path);

// === impl Frozen ===

impl<'a> Frozen<'a> {
    pub(crate) fn freeze(mountpoint: &'a Path) -> Self {
        run(Command::new("fsfreeze").arg("--freeze").arg(mountpoint));
        Self(mountpoint)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        run(Command::new("fsfreeze").arg("--unfreeze").arg(self.0));
    }
}

/// Runs `work` in a private mount namespace, which ends with its thread.
pub(crate) fn apart(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).expect("this test mounts file systems and needs to run as root");
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).expect("cannot make mounts private");
        work();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `test` in a private mount namespace. Ends its async runtime as the binary does, so blocked threads do not delay
/// it.
pub(crate) fn apart_async(test: impl AsyncFnOnce() + Send + 'static) {
    apart(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test());
        runtime.shutdown_background();
    });
}

/// Mounts a new ext4 file system in the file `image` on `root`.
pub(crate) fn mount_disk(image: &Path, root: &Path) {
    File::create(image).unwrap().set_len(32 << 20).unwrap();
    run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image));
    run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(root));
}

/// Unmounts it, also while it is in use.
pub(crate) fn unmount(root: &Path) {
    run(Command::new("umount").arg("--lazy").arg(root));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
