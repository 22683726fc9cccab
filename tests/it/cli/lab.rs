//! `kubegc lab`: replays of a trace from a file, and what it says without one.

use kubegc::model::{DiskUse, NodeDisk};
use kubegc::plan::update_memory;
use serde_json::{Value, json};

use super::*;

const HOUR: i64 = 3600;

/// A shell with a snapshot whose trace has three images on a disk of 1,000 MiB in four days, each used for an hour of each day.
fn traced() -> Shell {
    let shell = Shell::new();
    let at = |second: i64| jiff::Timestamp::from_second(1_793_491_200 + second).unwrap();
    let (mut images, mut events) = (Vec::new(), Vec::new());
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        images.push(json!({ "id": name, "tags": [format!("r.example/{name}:1")], "size_bytes": 200 << 20 }));
        for day in 0..4 {
            let from = day * 24 * HOUR + i64::try_from(number).unwrap() * 6 * HOUR + HOUR;
            for (at, event) in
                [(from, "appeared"), (from, "used"), (from + HOUR, "last_used"), (from + HOUR + 1, "collected")]
            {
                events.push((at, number, event));
            }
        }
    }
    events.sort_unstable();
    let event =
        |(second, image, event): &(i64, usize, &str)| json!({ "at": at(*second), "image": image, "event": event });
    let is_used = |hour: i64| matches!(hour % 24, 1 | 2 | 7 | 8 | 13 | 14);
    let free = |hour: i64| if is_used(hour) { 800_u64 << 20 } else { 1_000 << 20 };
    let sample = |hour: i64| json!({ "at": at(hour * HOUR), "mountpoint": "/images", "capacity_bytes": 1_000_u64 << 20, "available_bytes": free(hour) });
    let disk: Vec<_> = (1..96).map(sample).collect();
    let trace = json!({ "images": images, "events": events.iter().map(event).collect::<Vec<_>>(), "disk": disk });
    let pulls = json!({ "r.example/a": { "pulls": 4, "seconds": 20, "last": at(0) } });
    let snapshot = json!({ "taken_at": at(96 * HOUR), "trace": trace, "memory": { "pulls": pulls } });
    std::fs::write(shell.path("node.json"), snapshot.to_string()).unwrap();
    shell
}

fn lab(shell: &Shell, arguments: &[&str]) -> String {
    shell.run(&[&["lab", "--snapshot", "node.json", "--since", "2026-01-01"], arguments].concat())
}

#[test]
fn settings_are_compared_with_those_in_force() {
    let shell = traced();
    insta::assert_snapshot!(lab(&shell, &["--set", "images.high_threshold_percent=50", "--set", "images.low_threshold_percent=40"]), @"
    3 images in 3d22h since 2026-11-01T01:00:00Z, 95 passes over them; the high threshold is 85%, evictions begin below 150.0MiB free
    All rows are replays; in force are the settings of the files of this machine, because those of an agent are not known.

    SETTINGS    PEAK  ABOVE HIGH  EVICTION  REMOVED      PULLED AGAIN  PULL TIME
    in force    60%   0s          0s        0 (0B)       0 (0B)        0s
    tried       60%   0s          0s        10 (2.0GiB)  9 (1.8GiB)    60s
    kubelet     60%   0s          0s        0 (0B)       0 (0B)        0s
    all unused  20%   0s          0s        12 (2.3GiB)  9 (1.8GiB)    60s
    ");
    insta::assert_snapshot!(lab(&shell, &[]), @"
    3 images in 3d22h since 2026-11-01T01:00:00Z, 95 passes over them; the high threshold is 85%, evictions begin below 150.0MiB free
    All rows are replays; in force are the settings of the files of this machine, because those of an agent are not known.

    SETTINGS    PEAK  ABOVE HIGH  EVICTION  REMOVED      PULLED AGAIN  PULL TIME
    in force    60%   0s          0s        0 (0B)       0 (0B)        0s
    kubelet     60%   0s          0s        0 (0B)       0 (0B)        0s
    all unused  20%   0s          0s        12 (2.3GiB)  9 (1.8GiB)    60s
    ");
}

#[test]
fn a_suggestion_has_both_halves() {
    let shell = traced();
    std::fs::write(shell.path("kubegc.toml"), "[images]\nmax_age = \"5h\"\n").unwrap();
    insta::assert_snapshot!(lab(&shell, &["--suggest"]), @r#"
    3 images in 3d22h since 2026-11-01T01:00:00Z, 95 passes over them; the high threshold is 85%, evictions begin below 150.0MiB free
    All rows are replays; in force are the settings of the files of this machine, because those of an agent are not known.

    SETTINGS    PEAK  ABOVE HIGH  EVICTION  REMOVED      PULLED AGAIN  PULL TIME
    in force    40%   0s          0s        12 (2.3GiB)  9 (1.8GiB)    60s
    kubelet     40%   0s          0s        12 (2.3GiB)  9 (1.8GiB)    60s
    all unused  20%   0s          0s        12 (2.3GiB)  9 (1.8GiB)    60s

    Suggested, chosen by the first half:
      images.max_age="0s" (off)

    SETTINGS                PEAK  ABOVE HIGH  EVICTION  REMOVED     PULLED AGAIN  PULL TIME
    in force, first half    40%   0s          0s        6 (1.2GiB)  3 (600.0MiB)  20s
    suggested, first half   60%   0s          0s        0 (0B)      0 (0B)        0s
    in force, second half   40%   0s          0s        6 (1.2GiB)  6 (1.2GiB)    40s
    suggested, second half  60%   0s          0s        0 (0B)      0 (0B)        0s

    The second half, since 2026-11-03T00:00:00Z, did not choose them: its rows show what to expect. Other days may differ.
    "#);
}

/// No threshold and no order changes what a target of bytes removes.
#[test]
fn a_row_that_is_better_is_named_where_no_suggestion_is() {
    let shell = traced();
    std::fs::write(shell.path("kubegc.toml"), "[images]\ntargets = [\"total 300MiB..100MiB\"]\n").unwrap();
    let text = lab(&shell, &["--suggest"]);
    let said = text.lines().last().unwrap();
    assert_eq!(
        said,
        "No thresholds, maximum age or order was better on the first half. Rows better on the whole time: kubelet.",
        "{text}"
    );
    std::fs::write(shell.path("kubegc.toml"), "").unwrap();
    assert!(lab(&shell, &["--suggest"]).ends_with(" Rows better on the whole time: none.\n"));
}

#[test]
fn what_happened_has_the_sums_of_the_history() {
    let shell = past::pulled_again();
    let store = Store::open_blocking(&shell.path("kubegc.db")).unwrap();
    for hour in 0..3 {
        let taken_at = full_disk().taken_at + jiff::SignedDuration::from_hours(hour);
        let file_system = full_disk().image_filesystem.as_ref().unwrap().clone();
        let disks = vec![NodeDisk { holds: vec![DiskUse::Images], file_system: file_system.clone() }];
        let snapshot = Snapshot { taken_at, disks, ..full_disk() };
        store.change_blocking(|state| {
            state.record_usage(taken_at, vec![file_system]);
            state.learn(|memory| update_memory(&Snapshot { memory, ..snapshot }, &Policy::default()))
        });
    }
    drop(store);
    for (since, removed) in [("2026-11-21", 1), ("2026-11-21T13:00", 0)] {
        let of = |command: &[&str]| {
            let text = shell.run(&[command, &["--state", "kubegc.db", "--since", since, "-o", "json"]].concat());
            text.lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{text}")))
                .collect::<Vec<_>>()
        };
        let (sums, lab) = (of(&["history", "--sums", "--kind", "image"]), of(&["lab"]));
        let happened = &lab[0]["happened"];
        assert_eq!(happened["removed"], removed);
        for (of_lab, of_history) in [
            ("removed", "removed"),
            ("removed_bytes", "freed_bytes"),
            ("pulled_again", "pulled_again"),
            ("pulled_again_bytes", "pulled_again_bytes"),
        ] {
            let sum: u64 = sums.iter().map(|sum| sum[of_history].as_u64().unwrap()).sum();
            assert_eq!(happened[of_lab], sum, "{of_lab} since {since}");
        }
    }
    let text = shell.run(&["lab", "--state", "kubegc.db", "--since", "2026-11-21"]);
    assert!(text.contains("\nAll rows except `happened` are replays; "), "{text}");
    assert!(text.contains("\nhappened    91%   "), "{text}");
}

#[test]
fn the_document_has_every_number() {
    let document: Value = serde_json::from_str(&lab(&traced(), &["-o", "json", "--suggest"])).unwrap();
    assert_eq!((&document["kind"], &document["passes"], &document["images"]), (&"Lab".into(), &95.into(), &3.into()));
    assert_eq!(document["replays"][0]["policy"], "in_force");
    assert_eq!(document["suggestion"]["settings"], json!([]));
}

#[test]
fn without_a_trace_the_error_says_where_one_is_from() {
    let shell = traced();
    insta::assert_snapshot!(shell.run(&["lab", "--state", "none.db"]), @"
    exit Some(2)
    ! error: no trace of images
    ! hint: the service records one; run it for some days
    ");
    std::fs::write(shell.path("plain.json"), r#"{ "taken_at": "2026-11-21T12:00:00Z" }"#).unwrap();
    insta::assert_snapshot!(shell.run(&["lab", "--snapshot", "plain.json"]), @"
    exit Some(2)
    ! error: no trace of images
    ! hint: `kubegc snapshot --trace` adds one
    ");
    insta::assert_snapshot!(shell.run(&["lab", "--snapshot", "node.json", "--since", "2031-01-01"]), @"
    exit Some(2)
    ! error: no pass over images since 2031-01-01T00:00:00Z
    ! hint: use an earlier --since
    ");
}
