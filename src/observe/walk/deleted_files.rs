//! Deleted files that processes hold open. Their space is free when the last of them closes the file.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::Path;

use procfs::ProcResult;
use procfs::process::{FDTarget, MountInfo, Process, all_processes};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use tokio::time::Instant;

use super::{BLOCK, Device, device, stat};
use crate::model::{DeletedFile, DirUsage, DiskContent};

/// What the kernel adds to the path of a deleted file (proc(5)).
const DELETED: &str = " (deleted)";
/// The files that are listed.
const MOST: usize = 20;

/// Adds the deleted files of a device, and of the containers whose writable layers are on it. Without the permission to look at
/// all processes, or the time, it has a part of them.
///
/// # Errors
/// The processes cannot be listed.
pub(super) fn add(content: &mut DiskContent, of: Device, mounts: &[MountInfo], until: Instant) -> ProcResult<()> {
    let devices = devices(of, mounts);
    let mut seen = HashSet::new();
    // With `ProtectProc=` of systemd (`hidepid`), the list has no processes of others, and nothing else shows that.
    content.deleted.at_least |= Process::new(1).is_err();
    for process in all_processes()? {
        if Instant::now() >= until {
            content.deleted.at_least = true;
            break;
        }
        // Processes come and go.
        let Ok(process) = process else { continue };
        let Ok(files) = process.fd() else {
            content.deleted.at_least |= process.is_alive();
            continue;
        };
        for file in files.filter_map(Result::ok) {
            let FDTarget::Path(path) = file.target else { continue };
            let Some(found) = deleted(&process, file.fd, &path, &devices, &mut seen) else { continue };
            content.deleted = content.deleted.and(DirUsage { bytes: found.bytes, inodes: 1, at_least: false });
            content.largest_deleted.push(found);
        }
    }
    content.largest_deleted.sort_by_key(|file| Reverse(file.bytes));
    content.largest_deleted.truncate(MOST);
    Ok(())
}

/// Returns the file if it is deleted, on these devices, and not seen before. What is known of it is asked without waiting for
/// another machine or a tenant's file system.
fn deleted(
    process: &Process,
    fd: i32,
    path: &Path,
    devices: &HashSet<Device>,
    seen: &mut HashSet<(Device, u64)>,
) -> Option<DeletedFile> {
    let path = path.to_string_lossy().strip_suffix(DELETED)?.to_owned();
    let flags = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, format!("/proc/{}/fd/{fd}", process.pid), flags, StatxFlags::BASIC_STATS).ok()?;
    let is_meant = found.stx_nlink == 0 && devices.contains(&device(&found));
    if !is_meant || !seen.insert((device(&found), found.stx_ino)) {
        return None;
    }
    let name = process.stat().map(|stat| stat.comm).unwrap_or_default();
    Some(DeletedFile { path, process: name, pid: process.pid, bytes: found.stx_blocks.saturating_mul(BLOCK) })
}

/// Returns a device, and those of the overlay mounts with their upper directory on it: a file of a container has the device of its
/// mount.
fn devices(of: Device, mounts: &[MountInfo]) -> HashSet<Device> {
    let on_it = |mount: &&MountInfo| {
        let upper = mount.super_options.get("upperdir").and_then(Option::as_ref);
        mount.fs_type == "overlay" && upper.is_some_and(|upper| stat(CWD, &**upper).is_ok_and(|it| device(&it) == of))
    };
    mounts.iter().filter(on_it).filter_map(|mount| number(&mount.majmin)).chain([of]).collect()
}

/// Reads a device as mountinfo has it: `259:2`.
fn number(text: &str) -> Option<Device> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
