//! Tests with a frozen disk: a loop-mounted ext4 and `fsfreeze`. Reads work there. Every write blocks in the kernel
//! until the disk is thawed.

use std::time::Instant;

use super::*;
use crate::testing::frozen_disk::{Frozen, apart_async, mount_disk, unmount};

/// The limit of a call in these tests.
const LIMIT: Duration = Duration::from_millis(300);
/// The longest wait of a test.
const BOUND: Duration = Duration::from_mins(1);
const DIRS: usize = 30;

fn name(number: usize) -> String {
    format!("default_web-{number}_u{number}")
}

fn log_dirs(bench: &Bench) -> Vec<Action> {
    (0..DIRS).map(|number| action(Target::RemoveLogDir { path: bench.pods(&name(number)) })).collect()
}

fn names(root: &Path) -> usize {
    fs::read_dir(root).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != "lost+found").count()
}

/// Runs a test with the pod log root on a disk of its own.
fn on_a_disk(test: impl AsyncFnOnce(&mut Bench, &Path) + Send + 'static) {
    apart_async(async || {
        let mut bench = Bench::new(Node::new());
        bench.host = HostFs::default().with_limit(LIMIT);
        let root = bench.pods("");
        mount_disk(&bench.sim.dir().join("disk.ext4"), &root);
        for number in 0..DIRS {
            fs::create_dir_all(root.join(name(number)).join("app")).unwrap();
            fs::write(root.join(name(number)).join("app/0.log"), "line").unwrap();
        }
        test(&mut bench, &root).await;
        unmount(&root);
    });
}

#[test]
fn a_frozen_log_disk_costs_one_time_out() {
    on_a_disk(async |bench, root| {
        let frozen = Frozen::freeze(root);
        let begun = Instant::now();
        let lines = tokio::time::timeout(BOUND, bench.carry_out(log_dirs(bench))).await.expect("the pass ends");
        let elapsed = begun.elapsed();
        assert!(elapsed >= LIMIT && elapsed < LIMIT * 10, "{elapsed:?}");
        assert!(lines[0].contains("file system did not respond within"), "{lines:?}");
        assert!(lines[1..].iter().all(|line| line.contains("earlier call is still blocked")), "{lines:?}");
        assert_eq!(names(root), DIRS);

        let begun = Instant::now();
        let lines = bench.carry_out(log_dirs(bench)).await;
        assert!(lines.iter().all(|line| line.contains("earlier call is still blocked")), "{lines:?}");
        assert!(begun.elapsed() < LIMIT * 10);
        drop(frozen);
    });
}

#[test]
fn a_blocked_removal_ends_in_its_thread() {
    on_a_disk(async |bench, root| {
        let frozen = Frozen::freeze(root);
        bench.carry_out(log_dirs(bench)).await;
        drop(frozen);
        let removed = async {
            while names(root) == DIRS {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(BOUND, removed).await.expect("the blocked removal ends");
        assert_eq!(names(root), DIRS - 1, "the others were never started");
        let rest = async {
            while names(root) > 0 {
                bench.carry_out(log_dirs(bench)).await;
            }
        };
        tokio::time::timeout(BOUND, rest).await.expect("the next pass removes the rest");
    });
}

#[test]
fn an_async_runtime_ends_immediately_during_a_blocked_removal() {
    on_a_disk(async |bench, root| {
        let frozen = Frozen::freeze(root);
        let (live, plan) = (bench.live(), plan(log_dirs(bench)));
        let ended = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let summary = runtime.block_on(live.carry_out(&plan, &CancellationToken::new(), &mut |_: Report| ()));
            let begun = Instant::now();
            runtime.shutdown_background();
            (summary.total().failed, begun.elapsed())
        });
        let (failed, elapsed) = tokio::task::spawn_blocking(|| ended.join().unwrap()).await.unwrap();
        assert_eq!(failed, DIRS);
        assert!(elapsed < LIMIT * 10, "{elapsed:?}");
        drop(frozen);
    });
}

#[test]
fn a_termination_log_behind_a_mount_is_kept() {
    apart_async(async || {
        let bench = kubelet_files::bench();
        let logs = bench.sim.dir().join(kubelet_files::LOGS);
        // The same file system, so the device is the same too.
        let bind = nix::mount::MsFlags::MS_BIND;
        nix::mount::mount(Some(&logs), &logs, None::<&str>, bind, None::<&str>).unwrap();
        let lines = bench.carry_out(vec![kubelet_files::log(&bench, "00000000")]).await;
        assert_eq!(lines, [format!("00000000 refused: {}", Refusal::ForeignPath)]);
        assert!(is_there(&logs.join("00000000")));
        unmount(&logs);
    });
}

#[test]
fn a_frozen_disk_of_the_kubelet_costs_one_time_out() {
    apart_async(async || {
        let mut bench = kubelet_files::bench();
        bench.host = HostFs::default().with_limit(LIMIT);
        let root = bench.sim.dir().join("kubelet");
        mount_disk(&bench.sim.dir().join("disk.ext4"), &root);
        kubelet_files::write_logs(&bench);
        let frozen = Frozen::freeze(&root);
        let actions = ["00000000", "00000001"].map(|name| kubelet_files::log(&bench, name));
        let lines = tokio::time::timeout(BOUND, bench.carry_out(actions.into())).await.expect("the pass ends");
        assert!(lines[0].contains("file system did not respond within"), "{lines:?}");
        assert!(lines[1].contains("earlier call is still blocked"), "{lines:?}");
        drop(frozen);
        unmount(&root);
    });
}

/// As `rm -rf` did with a volume that was still mounted (kubernetes#60987).
#[test]
fn the_directory_of_a_pod_with_a_mounted_volume_is_kept() {
    apart_async(async || {
        let bench = kubelet_files::bench();
        let volume = bench.sim.dir().join("kubelet/pods/u-gone/volumes/kubernetes.io~empty-dir/memory");
        let data = bench.sim.dir().join("data");
        fs::create_dir_all(&volume).unwrap();
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("file"), "text").unwrap();
        let bind = nix::mount::MsFlags::MS_BIND;
        nix::mount::mount(Some(&data), &volume, None::<&str>, bind, None::<&str>).unwrap();
        let removal = kubelet_files::pod_directory(&bench, "u-gone");
        let (lines, reports, _) = bench.carry_out_plan(&plan(vec![removal.clone()])).await;
        assert_eq!(lines, [format!("u-gone refused: {}", Refusal::ForeignPath)]);
        assert!(
            reports[0].note.as_ref().is_some_and(|note| note.contains("something is mounted there")),
            "{reports:?}"
        );
        assert!(is_there(&data.join("file")));
        unmount(&volume);
        assert_eq!(bench.carry_out(vec![removal]).await, ["u-gone removed"]);
        assert!(is_there(&data.join("file")));
    });
}

#[test]
fn leftovers_go_from_a_full_disk() {
    apart_async(async || {
        let bench = kubelet_files::bench();
        let root = bench.sim.dir().join("kubelet");
        mount_disk(&bench.sim.dir().join("disk.ext4"), &root);
        kubelet_files::write_logs(&bench);
        let removal = kubelet_files::pod_directory(&bench, "u-gone");
        fs::create_dir_all(root.join("pods/u-gone/volumes/kubernetes.io~empty-dir/cache")).unwrap();
        let full = fs::write(root.join("pods/u-gone/volumes/kubernetes.io~empty-dir/cache/data"), vec![7; 256 << 20]);
        assert_eq!(full.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        let lines = bench.carry_out(vec![kubelet_files::log(&bench, "00000000"), removal]).await;
        assert_eq!(lines, ["00000000 removed", "u-gone removed"]);
        unmount(&root);
    });
}

/// The limit of entries in one removal ends it. The next one removes the rest.
#[test]
fn the_removal_of_a_directory_that_grows_ends() {
    apart_async(async || {
        let bench = kubelet_files::bench();
        let removal = kubelet_files::pod_directory(&bench, "u-gone");
        let cache = bench.sim.dir().join("kubelet/pods/u-gone/volumes/kubernetes.io~empty-dir/cache");
        fs::create_dir_all(&cache).unwrap();
        (0..2_500).for_each(|number| fs::write(cache.join(format!("old-{number}")), "").unwrap());
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (stopped, into) = (std::sync::Arc::clone(&stop), cache.clone());
        let writer = std::thread::spawn(move || {
            let mut names = 0..;
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = fs::create_dir_all(&into);
                let _ = fs::write(into.join(names.next().unwrap().to_string()), "");
            }
        });
        let lines = tokio::time::timeout(BOUND, bench.carry_out(vec![removal.clone()])).await.expect("it ends");
        assert!(lines[0].starts_with("u-gone failed"), "{lines:?}");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().unwrap();
        for _ in 0..100 {
            if bench.carry_out(vec![removal.clone()]).await == ["u-gone removed"] {
                break;
            }
        }
        assert!(!is_there(&bench.sim.dir().join("kubelet/pods/u-gone")));
    });
}
