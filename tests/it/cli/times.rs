//! How long it takes until a decision changes by itself, computed from a fixed snapshot.

use jiff::SignedDuration;
use kubegc::model::{Absence, Failure, ListCounts, ListFall};

use super::*;

fn shell(snapshot: &Snapshot) -> Shell {
    Shell::new().with("node.json", &serde_json::to_string(snapshot).unwrap())
}

/// Returns the rows of the wide plan that name a time.
fn rows(snapshot: &Snapshot, flags: &[&str]) -> String {
    let text = shell(snapshot).run(&[&["plan", "--snapshot", "node.json", "-o", "wide"], flags].concat());
    let rows = text.lines().filter(|line| line.contains(" to go"));
    // The reason is the last column.
    rows.map(|row| row.rsplit("  ").next().unwrap().trim().to_owned() + "\n").collect()
}

#[test]
fn the_wide_plan_shows_when_ages_are_reached() {
    insta::assert_snapshot!(rows(&full_disk(), &["--set=containers.min_age=50h", "--set=guards.sandbox_grace=70h"]), @"
    younger than min_age (2d2h), 2d1h to go
    younger than min_age (2d2h), 2d1h to go
    younger than min_age (2d2h), 2d1h to go
    younger than min_age (2d2h), 2d1h to go
    possibly starting (guards.created_grace = 10m), 9m to go
    younger than min_age (2d2h), 46h to go
    younger than min_age (2d2h), 16h to go
    possibly being created (guards.sandbox_grace = 2d22h), 2d17h to go
    younger than min_age (2m), 60s to go
    ");
}

#[test]
fn missing_pods_and_back_offs_show_a_time() {
    let mut snapshot = full_disk();
    let since = snapshot.taken_at - SignedDuration::from_secs(12);
    snapshot.memory.absent_since =
        snapshot.memory.absent_since.iter().map(|gone| Absence { since, ..gone.clone() }).collect();
    let plan = decide(&full_disk(), &Policy::default(), Scope::All);
    let failure = Failure {
        count: 2,
        retry_at: snapshot.taken_at + SignedDuration::from_secs(95),
        error: "the device is busy".to_owned(),
    };
    let image = plan.actions.iter().find(|action| action.target.kind() == kubegc::plan::Kind::Image).unwrap();
    snapshot.memory.failures.insert(image.key(), failure);
    let mut found: Vec<_> = rows(&snapshot, &[]).lines().map(str::to_owned).collect();
    found.dedup();
    insta::assert_snapshot!(found.join("\n"), @"
    possibly starting (guards.created_grace = 10m), 9m to go
    pod missing for less than guards.gone_after (1m), 48s to go
    back-off after a failure, 95s to go: 2 failures: the device is busy
    younger than min_age (2m), 60s to go
    ");
}

#[test]
fn why_shows_the_time_of_an_unused_image() {
    let flags = ["--set=images.max_age=50h", "--set=images.high_threshold_percent=100"];
    let why =
        Shell::new().run(&[&["why", "--snapshot", FULL_DISK, "registry.example.com/ml/train:12"][..], &flags].concat());
    insta::assert_snapshot!(why, @r#"
    image registry.example.com/ml/train:12, sha256:95a8cb4e331a803a8c93597f232d80ef48824be2a6beab7cb4e295e16398bd58
      size 11.0GiB, first seen 2d2h ago, last used 41h ago
      keep: it is unused for at most 2d2h, and disk usage is below the high threshold
      setting: images.max_age = "2d2h" (--set)
      changes when: it is unused for longer, images.max_age is shorter, or disk usage reaches the high threshold (8h to go)
    "#);
}

/// The lists of the snapshot are shorter than the baseline, since 30 s.
#[test]
fn why_shows_when_a_shorter_list_becomes_trusted() {
    let mut snapshot = full_disk();
    let count = |length: Option<usize>| length.unwrap_or_default() as u64;
    let counts = ListCounts {
        containers: count(snapshot.containers.as_ref().map(Vec::len)),
        sandboxes: count(snapshot.sandboxes.as_ref().map(Vec::len)),
        images: count(snapshot.images.as_ref().map(Vec::len)),
    };
    snapshot.memory.last_counts = Some(ListCounts { containers: 1000, sandboxes: 1000, images: 1000 });
    let since = snapshot.taken_at - SignedDuration::from_secs(30);
    snapshot.memory.fall = Some(ListFall { since, passes: 2, counts });
    let why = shell(&snapshot).run(&["why", "--snapshot", "node.json", "registry.example.com/ml/train:12"]);
    insta::assert_snapshot!(why, @r#"
    image registry.example.com/ml/train:12, sha256:95a8cb4e331a803a8c93597f232d80ef48824be2a6beab7cb4e295e16398bd58
      size 11.0GiB, first seen 2d2h ago, last used 41h ago
      keep: the runtime lists 11 containers after 1000; kubegc trusts so few only after 10m
      setting: guards.fall_hold = "10m" (built-in)
      changes when: the list stays as short for guards.fall_hold, or grows again (9m30s to go)
    "#);
}
