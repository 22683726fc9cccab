use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::time::Duration;

use super::*;

fn later() -> Instant {
    Instant::now() + Duration::from_mins(10)
}

#[test]
fn blocks_count_and_a_file_with_two_names_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let empty = measure(dir.path(), later()).unwrap();
    for number in 0..10 {
        fs::write(dir.path().join(number.to_string()), [7; 100]).unwrap();
    }
    fs::hard_link(dir.path().join("0"), dir.path().join("again")).unwrap();
    symlink("/usr", dir.path().join("link")).unwrap();
    let file = fs::metadata(dir.path().join("0")).unwrap().blocks() * BLOCK;
    let link = fs::symlink_metadata(dir.path().join("link")).unwrap().blocks() * BLOCK;
    let size = measure(dir.path(), later()).unwrap();
    assert_eq!((size.bytes - empty.bytes, size.inodes - empty.inodes), (10 * file + link, 11));
}

#[test]
fn what_does_not_exist_or_takes_too_long_has_no_size() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "1").unwrap();
    assert_eq!(measure(&dir.path().join("none"), later()).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(measure(dir.path(), Instant::now()).unwrap_err().kind(), io::ErrorKind::TimedOut);
    let path = dir.path();
    let ended = Walk::new(path, Instant::now()).unwrap().measure(CWD, path).unwrap();
    assert_eq!((ended.inodes, ended.at_least), (1, true), "a walk that ends early has what it saw");
}

/// A tenant can make directories as deep as it likes.
#[test]
fn a_directory_that_is_too_deep_is_measured_in_part() {
    let dir = tempfile::tempdir().unwrap();
    let deep = (0..DEPTH + 2).fold(dir.path().to_owned(), |path, _| path.join("d"));
    fs::create_dir_all(&deep).unwrap();
    let size = Walk::new(dir.path(), later()).unwrap().measure(CWD, dir.path()).unwrap();
    assert_eq!((size.inodes, size.at_least), (u64::from(DEPTH) + 1, true));
}

#[test]
fn access_times_do_not_change() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/file"), "1").unwrap();
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1);
    let sub = fs::File::open(dir.path().join("sub")).unwrap();
    sub.set_times(fs::FileTimes::new().set_accessed(long_ago)).unwrap();
    assert_eq!(measure(dir.path(), later()).unwrap().inodes, 3);
    assert_eq!(fs::metadata(dir.path().join("sub")).unwrap().atime(), 1);
}

mod as_root {
    use nix::mount::{MsFlags, mount};

    use super::*;
    use crate::testing::frozen_disk::apart;

    /// A directory of the same device that is mounted at another place is a tenant's volume, or the whole host.
    #[test]
    fn a_mount_is_not_entered() {
        apart(|| {
            let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            fs::write(other.path().join("file"), vec![7; 100_000]).unwrap();
            for (name, kind, flags) in [("bind", None, MsFlags::MS_BIND), ("tmpfs", Some("tmpfs"), MsFlags::empty())] {
                fs::create_dir(dir.path().join(name)).unwrap();
                mount(Some(other.path()), &dir.path().join(name), kind, flags, None::<&str>).unwrap();
            }
            let size = measure(dir.path(), later()).unwrap();
            assert_eq!((size.inodes, size.at_least), (1, false));
        });
    }
}
