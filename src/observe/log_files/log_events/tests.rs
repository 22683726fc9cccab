#![expect(clippy::disallowed_methods, reason = "a test may remove its own files")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

const WEB: &str = "default_web_u1";

struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Writes a file, and the directories above it.
    fn write(&self, path: &str, content: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), content).unwrap();
    }

    fn watch(&self) -> LogEvents {
        LogEvents::watch(&HostFs::default(), self.0.path()).unwrap()
    }
}

/// Returns the pods that have changed since the last call.
fn changed(events: &mut LogEvents) -> Vec<String> {
    events.read().unwrap().unwrap().into_iter().collect()
}

#[test]
fn what_is_new_in_a_pod_is_reported() {
    let root = Root::new();
    root.write(&format!("{WEB}/app/0.log"), "line");
    let mut events = root.watch();
    assert_eq!(changed(&mut events), [""; 0]);
    fs::OpenOptions::new().append(true).open(root.at(WEB).join("app/0.log")).unwrap().set_len(9).unwrap();
    assert_eq!(changed(&mut events), [""; 0], "a line in a file with lines is nothing new");
    fs::rename(root.at(WEB).join("app/0.log"), root.at(WEB).join("app/0.log.20260102-150405")).unwrap();
    assert_eq!(changed(&mut events), [WEB]);
    root.write(&format!("{WEB}/app/0.log"), "");
    assert_eq!(changed(&mut events), [WEB]);
    assert_eq!(changed(&mut events), [""; 0]);
    root.write(&format!("{WEB}/app/0.log"), "line");
    assert_eq!(changed(&mut events), [WEB], "its first line");
    root.write(&format!("{WEB}/app/0.log"), "another");
    assert_eq!(changed(&mut events), [""; 0]);
    root.write(&format!("{WEB}/init/0.log"), "line");
    assert_eq!(changed(&mut events), [WEB]);
    fs::rename(root.at(WEB).join("init/0.log"), root.at(WEB).join("init/1.log")).unwrap();
    assert_eq!(changed(&mut events), [WEB], "its new container is watched");
}

#[test]
fn a_new_pod_is_watched_with_what_it_has_already() {
    let root = Root::new();
    let mut events = root.watch();
    root.write("shop_db_u2/app/0.log", "");
    root.write("no-pod/app/0.log", "");
    symlink(root.at("shop_db_u2"), root.at("shop_link_u3")).unwrap();
    assert_eq!(changed(&mut events), ["shop_db_u2"]);
    root.write("shop_db_u2/app/0.log", "line");
    assert_eq!(changed(&mut events), ["shop_db_u2"]);
    fs::remove_dir_all(root.at("shop_db_u2")).unwrap();
    changed(&mut events);
    assert_eq!(events.watched.len(), 1, "the root alone: {:?}", events.watched);
    root.write("shop_db_u2/app/0.log", "line");
    assert_eq!(changed(&mut events), ["shop_db_u2"]);
}

#[test]
fn at_the_limit_the_others_are_watched_on() {
    let root = Root::new();
    for number in 0..2 * MOST_WATCHES {
        root.write(&format!("default_web-{number:03}_u{number}/app/0.log"), "line");
    }
    let mut events = root.watch();
    assert!(events.is_full && events.watched.len() == MOST_WATCHES);
    let mut reported = 0;
    for number in 0..2 * MOST_WATCHES {
        root.write(&format!("default_web-{number:03}_u{number}/app/1.log"), "line");
        reported += changed(&mut events).len();
    }
    assert_eq!(reported, MOST_WATCHES / 2 - 1, "each pod has two watches, the root one, and one is left");
}

#[test]
fn a_root_that_is_missing_is_an_error() {
    let missing = Root::new().at("missing");
    assert_eq!(LogEvents::watch(&HostFs::default(), &missing).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_pod_with_many_directories_has_its_share_of_the_watches() {
    let root = Root::new();
    for number in 0..2 * MOST_WATCHES {
        fs::create_dir_all(root.at(&format!("default_many_u0/{number}"))).unwrap();
        fs::create_dir_all(root.at(&format!("{WEB}/not a container {number}"))).unwrap();
    }
    root.write(&format!("{WEB}/app/0.log"), "line");
    let mut events = root.watch();
    assert_eq!(events.counts.values().sum::<usize>(), WATCHES_OF_POD + 2, "{:?}", events.counts);
    assert!(!events.is_full);
    fs::remove_dir_all(root.at("default_many_u0")).unwrap();
    root.write(&format!("{WEB}/app/1.log"), "line");
    changed(&mut events);
    assert_eq!(events.counts.into_iter().collect::<Vec<_>>(), [(WEB.into(), 2)]);
}

#[test]
fn a_pod_with_endless_events_is_left_to_the_passes() {
    let root = Root::new();
    root.write(&format!("{WEB}/app/0.log"), "line");
    root.write("default_busy_u0/app/0.log", "line");
    let mut events = root.watch();
    let churn = |root: &Root| {
        for number in 0..2 * EVENTS_OF_POD {
            root.write(&format!("default_busy_u0/app/{number}.tmp"), "");
        }
    };
    churn(&root);
    assert_eq!(changed(&mut events), ["default_busy_u0"]);
    churn(&root);
    root.write(&format!("{WEB}/app/1.log"), "line");
    root.write("default_busy_u0/other/0.log", "line");
    assert_eq!(changed(&mut events), [WEB]);
    assert!(events.watched.values().all(|watched| watched.pod().is_none_or(|pod| &**pod == WEB)));
}
