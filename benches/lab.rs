//! `kubegc lab` over 30 days of a node with about 1,000 images. Aims: 1.5 s and 30 MiB for the whole command, 40 MiB for the store.
//!
//! `cargo bench --bench lab`. The store is filled as the service fills it: one change for each pass over images.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly, starts programs and measures time"
)]

#[path = "common/figures.rs"]
mod figures;
/// The nodes of the tests.
#[path = "../tests/it/lab/generate.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod generate;
#[path = "common/program.rs"]
mod program;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use figures::{median, mib};
use generate::Load;
use kubegc::model::{Container, ContainerState, DiskUse, ImageEvent, NodeDisk, Seen, Snapshot, Trace};
use kubegc::plan::{Policy, Scope, Summary, update_memory};
use kubegc::record::{Retention, RunEnd, RunStart, Store};
use nix::sys::resource::{UsageWho, getrusage};

const RUNS: usize = 5;

fn main() {
    let trace = Load::of(1, [300, 120, 40, 16], 500, 30).trace();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubegc.db");
    fill(&path, &trace);
    let size = std::fs::metadata(&path).unwrap().len();
    println!("store: {} images, {} events, {:.1} MiB", trace.images.len(), trace.events.len(), mib(size));
    for (what, more) in
        [("lab", &[][..]), ("lab, other settings", &["--set=images.max_age=72h"]), ("lab --suggest", &["--suggest"])]
    {
        let seconds = median((0..RUNS).map(|_| run(&path, more).as_secs_f64()));
        println!("{what}: {seconds:.2} s, peak {:.1} MiB", mib(peak()));
    }
}

/// Runs the command. Returns how long it took.
fn run(store: &Path, more: &[&str]) -> Duration {
    let mut command = Command::new(program::kubegc());
    command.args(["lab", "--since=2026-01-01", "--state"]).arg(store).args(more).env_clear();
    let begin = Instant::now();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    begin.elapsed()
}

/// Returns the peak memory of the commands so far, in bytes.
fn peak() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    u64::try_from(usage.max_rss()).unwrap() << 10
}

/// Fills a store with the passes of a trace.
fn fill(path: &Path, trace: &Trace) {
    let (store, policy) = (Store::open_blocking(path).unwrap(), Policy::default());
    let keep = Retention { max_age: Duration::from_hours(30 * 24), max_rows: 10_000 };
    let (mut events, mut there, mut used) = (trace.events.iter().peekable(), BTreeSet::new(), BTreeSet::new());
    for sample in &trace.disk {
        while let Some(event) = events.next_if(|event| event.is_seen_at(sample.at)) {
            match event.event {
                ImageEvent::Appeared => _ = there.insert(event.image),
                ImageEvent::Used => _ = used.insert(event.image),
                ImageEvent::LastUsed => _ = used.remove(&event.image),
                ImageEvent::Removed | ImageEvent::Collected => {} // this node keeps all
            }
        }
        let images = there.iter().map(|image| trace.images[*image].image.clone()).collect();
        let containers = used.iter().map(|image| container(trace.images[*image].id().as_str(), sample.at)).collect();
        let mut file_system = sample.file_system.clone();
        file_system.mountpoint = "/var/lib/containerd".into();
        let disks = vec![NodeDisk { holds: vec![DiskUse::Images], file_system: file_system.clone() }];
        let (images, containers) = (Seen::Seen(images), Seen::Seen(containers));
        let snapshot = Snapshot { images, containers, disks, ..Snapshot::unobserved(sample.at) };
        let started_at = sample.at;
        let run = store.change_blocking(|state| {
            state.trace_images(&snapshot);
            state.learn(|memory| update_memory(&Snapshot { memory, ..snapshot }, &policy));
            state.record_usage(started_at, vec![file_system]);
            state.begin_run(RunStart { started_at, scope: Scope::Images, dry: false, triggered_by: None })
        });
        let end = RunEnd { at: started_at, summary: Summary::default(), error: None, keep };
        store.change_blocking(|state| state.end_run(&run, end));
    }
}

fn container(image: &str, created_at: jiff::Timestamp) -> Container {
    serde_json::from_value(serde_json::json!({
        "id": image, "image_id": image, "state": ContainerState::Running, "created_at": created_at,
    }))
    .unwrap()
}
