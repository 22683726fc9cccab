//! Requests a reload when a configuration file has changed.
//!
//! It looks at intervals, which works on every file system and for each way to replace a file: a rename, a write, and
//! the exchanged link of a ConfigMap. A change counts when the next look finds it too, because a file that is just being
//! written may be valid and incomplete.

use std::cell::RefCell;
use std::time::Duration;

use tokio::time::sleep;

use super::signals::Reload;
use crate::config::ConfigFiles;
use crate::host_path::BoundedCalls;
use crate::model::Outage;

/// The wait between two looks. A change takes effect after two of them at most.
const INTERVAL: Duration = Duration::from_secs(5);

/// The files as they were right before the last load of the settings.
#[derive(Debug)]
pub struct FileWatch(RefCell<ConfigFiles>);

/// What the looks have found.
#[derive(Default)]
struct Changes {
    /// Found by one look.
    candidate: Option<ConfigFiles>,
    /// The configuration file that was in force is missing.
    main_missing: Outage,
}

// === impl FileWatch ===

impl FileWatch {
    /// Creates the watch of these files.
    pub fn new(files: ConfigFiles) -> Self {
        Self(RefCell::new(files))
    }

    /// Records the state of the files. It belongs before each load: what changes during the load is found by the next
    /// look.
    pub fn before_load(&self) {
        let now = self.0.borrow().find_again();
        self.0.replace(now);
    }

    /// Looks at the files until the end of the process. Never returns.
    pub async fn run(&self, reload: &Reload) {
        let (calls, mut changes) = (BoundedCalls::default(), Changes::default());
        loop {
            sleep(INTERVAL).await;
            let files = self.0.borrow().clone();
            let main = files.main().to_owned();
            // A disk that hangs is looked at again, and blocks one thread.
            let Ok(now) = calls.run(&main, move || files.find_again()).await else { continue };
            if changes.are_complete(&self.0.borrow(), now) {
                tracing::info!("the configuration files have changed: reloading the settings");
                reload.request();
            }
        }
    }
}

// === impl Changes ===

impl Changes {
    /// Returns whether there is a change to apply. Without the configuration file all defaults would be in force, so it
    /// must exist if it did; SIGHUP reloads without it.
    fn are_complete(&mut self, loaded: &ConfigFiles, now: ConfigFiles) -> bool {
        let is_missing = loaded.has_main() && !now.has_main();
        if self.main_missing.begins(is_missing.then_some(())).is_some() {
            tracing::warn!(path = %now.main().display(), "configuration file is missing; the settings remain in force");
        }
        if is_missing || now == *loaded {
            self.candidate = None;
            return false;
        }
        let is_complete = self.candidate.as_ref() == Some(&now);
        self.candidate = (!is_complete).then_some(now);
        is_complete
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::{Environment, Typed};

    #[test]
    fn a_file_change_counts_after_a_second_check() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kubegc.toml");
        fs::write(&file, "").unwrap();
        let files =
            ConfigFiles::find(&Typed { config: Some(file.clone()), ..Typed::default() }, &Environment::default());
        let (mut loaded, mut changes) = (files.clone(), Changes::default());
        let mut look = || {
            let now = files.find_again();
            let is_complete = changes.are_complete(&loaded, now.clone());
            if is_complete {
                loaded = now;
            }
            is_complete
        };
        assert_eq!([look(), look()], [false, false], "no change");
        fs::write(&file, "mode = \"obs").unwrap();
        assert!(!look());
        fs::write(&file, "mode = \"observe\"").unwrap();
        assert_eq!([look(), look(), look()], [false, true, false]);
        fs::rename(&file, dir.path().join("away")).unwrap();
        assert_eq!([look(), look(), look()], [false, false, false]);
        fs::rename(dir.path().join("away"), &file).unwrap();
        assert_eq!([look(), look(), look()], [false, true, false], "a rename changes the inode's time");
    }
}
