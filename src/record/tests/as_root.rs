//! Tests with a full disk and a read-only disk: small file systems in a separate mount namespace.

use std::fs::File;
use std::io::Write;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::opening::old_stores;
use super::*;
use crate::record::{Lock, LockError, StoreError};

/// Runs `test` on a new file system of 512 KiB in a private mount namespace. The namespace ends with the thread.
fn on_a_small_disk(test: impl FnOnce(&Path) + Send + 'static) {
    let dir = TempDir::new().unwrap();
    let disk = dir.path().to_owned();
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).expect("this test needs root, to have a mount namespace of its own");
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        mount(Some("tmpfs"), &disk, Some("tmpfs"), MsFlags::empty(), Some("size=512k")).unwrap();
        test(&disk);
    });
    thread.join().unwrap();
}

fn mount_again(disk: &Path, flags: MsFlags) {
    let none = None::<&str>;
    mount(none, disk, none, MsFlags::MS_REMOUNT | flags, none).unwrap();
}

/// Fills the disk. Truncating the returned file frees the space again.
fn fill_disk(disk: &Path) -> File {
    let mut ballast = File::create(disk.join("ballast")).unwrap();
    while ballast.write(&[1; 4096]).is_ok() {}
    ballast
}

/// Opens a store whose file cannot be written.
fn unwritable(path: &Path) -> TestStore {
    let store = TestStore::at(path);
    assert!(store.store.fault().is_some());
    store
}

#[test]
fn a_first_start_on_a_full_disk_uses_memory() {
    on_a_small_disk(|disk| {
        let path = disk.join("state/kubegc.db");
        let ballast = fill_disk(disk);
        let store = unwritable(&path);
        fill(&store);
        assert_eq!(store.memory(), memory());
        assert!(store.store.fault().is_some(), "the disk is still full when the run begins");

        ballast.set_len(0).unwrap();
        store.begin_run(at(60), Scope::All);
        assert_eq!(store.store.fault(), None);
        drop(store);
        assert_eq!(open(&path).recorded(), ["c1", "sha256:bb"]);
    });
}

#[test]
fn on_a_full_disk_the_past_is_still_known() {
    on_a_small_disk(|disk| {
        let path = disk.join("kubegc.db");
        fill(&open(&path));
        fill_disk(disk);
        let store = unwritable(&path);
        assert_eq!(store.memory(), memory());
    });
}

#[test]
fn an_older_store_on_a_full_disk_is_copied_and_migrated_later() {
    on_a_small_disk(|disk| {
        let (path, copy) = (disk.join("kubegc.db"), disk.join("kubegc.db.before-migration"));
        let old = old_stores().join("v2.db");
        std::fs::copy(&old, &path).unwrap();
        let ballast = fill_disk(disk);
        let store = unwritable(&path);
        assert_eq!(store.memory().images, memory().images);
        assert!(std::fs::read(&path).unwrap() == std::fs::read(&old).unwrap());
        assert!(!copy.exists() && !disk.join("kubegc.db.before-migration.tmp").exists());

        ballast.set_len(0).unwrap();
        store.begin_run(at(60), Scope::All);
        assert_eq!((store.store.fault(), copy.exists()), (None, true));
    });
}

#[test]
fn a_full_disk_permits_reading_a_killed_agents_log() {
    on_a_small_disk(|disk| {
        let (_dir, path) = place();
        let agent = open(&path);
        fill(&agent);
        let (_killed, left) = killed(&path);
        let path = disk.join("kubegc.db");
        for extension in ["db", "db-wal"] {
            std::fs::copy(left.with_extension(extension), path.with_extension(extension)).unwrap();
        }
        fill_disk(disk);
        let before = files(disk);
        let store = unwritable(&path);
        assert_eq!(store.memory(), memory());
        drop(store);
        let mut after = files(disk);
        after.remove("kubegc.db-shm");
        assert_eq!(after, before, "the log waits for space");
    });
}

#[test]
fn a_disk_filling_during_a_run_loses_no_record() {
    on_a_small_disk(|disk| {
        let path = disk.join("kubegc.db");
        let store = open(&path);
        fill(&store);
        let run = store.begin_run(at(50), Scope::All);
        let ballast = fill_disk(disk);
        record(&store, &run, (0..200).map(|number| format!("m{number}")));
        assert!(store.store.fault().is_some());

        ballast.set_len(0).unwrap();
        store.begin_run(at(60), Scope::All);
        drop(store);
        assert_eq!(open(&path).recorded().len(), 202);
    });
}

#[test]
fn damaged_stores_are_set_aside_on_a_full_disk() {
    on_a_small_disk(|disk| {
        let path = disk.join("kubegc.db");
        std::fs::write(&path, [7; 5000]).unwrap();
        fill_disk(disk);
        let store = unwritable(&path);
        assert!(std::fs::read(disk.join("kubegc.db.corrupt-1")).unwrap() == [7; 5000]);
        assert_eq!(store.memory().baseline_lost, Some(BaselineLoss::default()));
    });
}

#[test]
fn a_full_disk_does_not_hinder_the_lock() {
    on_a_small_disk(|disk| {
        fill_disk(disk);
        let lock = Lock::take(&disk.join("kubegc.lock"), "run").unwrap();
        let error = Lock::take(&disk.join("kubegc.lock"), "collect").unwrap_err();
        assert!(matches!(error, LockError::Held { .. }), "{error:?}");
        drop(lock);
    });
}

#[test]
fn on_a_read_only_disk_runs_work_in_memory() {
    on_a_small_disk(|disk| {
        let path = disk.join("kubegc.db");
        fill(&open(&path));
        mount_again(disk, MsFlags::MS_RDONLY);
        let store = unwritable(&path);
        let fault = store.store.fault().unwrap();
        let cause = format!("the state directory {} cannot be written: Read-only file system", disk.display());
        assert!(fault.contains(&cause) && fault.ends_with("; continuing in memory"), "{fault}");
        assert_eq!(store.memory(), memory());
        let run = store.begin_run(at(60), Scope::All);
        record(&store, &run, ["c2".to_owned()]);
        assert_eq!(store.recorded(), ["c1", "sha256:bb"]);

        mount_again(disk, MsFlags::empty());
        store.begin_run(at(120), Scope::All);
        assert_eq!(store.store.fault(), None);
        drop(store);
        assert_eq!(open(&path).recorded(), ["c1", "sha256:bb", "c2"]);
    });
}

#[test]
fn newer_stores_are_refused_on_a_read_only_disk() {
    on_a_small_disk(|disk| {
        let path = disk.join("kubegc.db");
        open(&path).store.mirror().connection().pragma_update(None, "user_version", 99).unwrap();
        mount_again(disk, MsFlags::MS_RDONLY);
        let error = Store::open_blocking(&path).unwrap_err();
        assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error:?}");
    });
}

#[test]
fn a_lock_error_names_the_read_only_file_system() {
    on_a_small_disk(|disk| {
        mount_again(disk, MsFlags::MS_RDONLY);
        let error = Lock::take(&disk.join("kubegc.lock"), "run").unwrap_err().to_string();
        assert!(error.contains("Read-only file system"), "{error}");
    });
}
