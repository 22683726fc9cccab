//! Tests with a state directory on a frozen file system.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use super::*;
use crate::daemon::cycle::pauses::keep_reserve;
use crate::daemon::{end_pause, write_pause};
use crate::fleet::Pause;
use crate::record::HistoryFilter;
use crate::testing::frozen_disk::{Frozen, apart_async, mount_disk, unmount};

/// The limit of one call of the store.
const LIMIT: Duration = Duration::from_millis(300);

#[test]
fn a_frozen_state_disk_costs_one_time_out() {
    apart_async(async || {
        let (sim, dir, cycle) = on_a_disk();
        let frozen = Frozen::freeze(&dir);
        let pass = timeout(MINUTE, regular(&cycle, Scope::Containers)).await.expect("the pass ends");
        let removed = pass.summary.total().removed;
        assert!(removed > 0 && pass.summary.total().failed == 0, "{:?}", pass.summary);
        let cause = pass.not_recorded.expect("it is not recorded");
        assert!(cause.contains("file system did not respond within"), "{cause}");
        let images = timeout(MINUTE, regular(&cycle, Scope::Images)).await.expect("the next pass ends, too");
        assert!(images.not_recorded.is_some(), "the disk is still frozen");

        drop(frozen);
        let returned = async { while regular(&cycle, Scope::Images).await.not_recorded.is_some() {} };
        timeout(MINUTE, returned).await.expect("the store returns to its file");
        cycle.into_store().close().await;
        let store = StoreReader::open(&dir.join("kubegc.db")).unwrap().unwrap();
        assert_eq!(store.history(&HistoryFilter::default()).unwrap().len(), removed);
        let runs = store.runs(100).unwrap();
        assert!(runs.iter().all(|run| run.error.is_none() && run.finished_at.is_some()), "{runs:#?}");
        drop((store, sim));
        unmount(&dir);
    });
}

#[test]
fn a_shutdown_with_a_frozen_state_disk_is_bounded() {
    apart_async(async || {
        let (sim, dir, cycle) = on_a_disk();
        let (stop, limits) =
            (CancellationToken::new(), Limits { hold_up: SECOND, shutdown: MINUTE, ..Limits::default() });
        let frozen = Frozen::freeze(&dir);
        let (_signals, _, reload) = signals::listen().unwrap();
        let mut requests = Requests { reload, inbox: Inbox::closed(clock::now()), progress: Progress::default() };
        let after = |_: &Pass| stop.cancel();
        let service = async {
            let (store, _) = run(cycle, &limits, &stop, &mut requests, || None::<()>, after).await;
            store.close().await;
        };
        timeout(MINUTE, Box::pin(service)).await.expect("the service ends in time");
        drop((frozen, sim));
        unmount(&dir);
    });
}

/// I19: the disk of the store is full when a person pauses the node.
#[test]
fn a_pause_holds_on_a_full_disk() {
    apart_async(async || {
        let (sim, dir, cycle) = on_a_disk();
        let file = cycle.settings().state.pause_file();
        let fill = || {
            let mut ballast = File::create(dir.join("ballast")).unwrap();
            // The blocks of the disk are smaller than the first writes.
            for bytes in [&[1; 4096][..], &[1]] {
                while ballast.write(bytes).is_ok() {}
            }
            ballast
        };
        let pause = Pause { reason: "the disk is full".to_owned(), ..Pause::default() };
        let ballast = fill();
        assert_eq!(
            write_pause(&file, &pause).unwrap_err().kind(),
            std::io::ErrorKind::StorageFull,
            "without a reserve"
        );
        ballast.set_len(0).unwrap();
        keep_reserve(&file);
        drop(fill());
        write_pause(&file, &pause).unwrap();
        let pass = regular(&cycle, Scope::All).await;
        assert_eq!((pass.summary.total().removed, pass.summary.suspended), (0, Some(pause.to_string())));
        assert!(end_pause(&file).unwrap());
        assert!(regular(&cycle, Scope::All).await.summary.total().removed > 0);
        cycle.into_store().close().await;
        drop(sim);
        unmount(&dir);
    });
}

/// Returns a node, its state directory on a disk of its own, and its cycle.
fn on_a_disk() -> (Sim, PathBuf, Cycle) {
    let sim = sim();
    let (settings, dir) = (settings(&sim), sim.dir().join("state"));
    std::fs::create_dir(&dir).unwrap();
    mount_disk(&sim.dir().join("disk.ext4"), &dir);
    let store = Store::open_blocking(&settings.state.path).unwrap().with_limit(LIMIT);
    let cycle = cycle_with(&sim, settings, store);
    (sim, dir, cycle)
}

async fn regular(cycle: &Cycle, scope: Scope) -> Pass {
    cycle.pass(PassKind::Regular(scope), &CancellationToken::new(), |_, _| {}).await
}
