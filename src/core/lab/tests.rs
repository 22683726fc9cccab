//! Replays of small traces. Times are in hours since the start, and a pass over images is each hour.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::model::{
    DiskSample, FileSystem, Image, ImageEvent, ImageRemoval, RepositoryPulls, Trace, TraceEvent, TracedImage,
};
use crate::plan::{Guards, ImagePolicy, ImageTarget, Policy, Profile};
use crate::rules::{Rule, RuleSubject, RuleText, Then};

const MIB: u64 = 1 << 20;
const DAYS: i64 = 3;

fn at(hours: i64) -> Timestamp {
    "2026-11-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_hours(hours)
}

/// An image of so many MiB, and the hours from and until which it is used.
type Uses<'a> = (&'a str, u64, &'a [(i64, i64)]);

/// A node of 1,000 MiB with these images. `others` is what else its disk holds, in MiB. An image is removed right after each use.
fn node(others: u64, images: &[Uses]) -> Trace {
    let mut trace = Trace::default();
    for (number, (name, mib, times)) in images.iter().enumerate() {
        let (tags, size_bytes) = (vec![format!("r.example/{name}:1")], mib * MIB);
        let image = Image { id: (*name).into(), tags, size_bytes, ..Image::default() };
        trace.images.push(TracedImage { image, ..TracedImage::default() });
        let events = times.iter().flat_map(|(from, until)| {
            let removed = at(*until) + SignedDuration::from_secs(1);
            [
                (at(*from), ImageEvent::Appeared),
                (at(*from), ImageEvent::Used),
                (at(*until), ImageEvent::LastUsed),
                (removed, ImageEvent::Collected),
            ]
        });
        trace.events.extend(events.map(|(at, event)| TraceEvent { at, image: number, event }));
    }
    trace.events.sort_by_key(|event| (event.at, event.event, event.image));
    let in_use = |hour: i64| {
        let is_used = |times: &[(i64, i64)]| times.iter().any(|(from, until)| (*from..=*until).contains(&hour));
        images.iter().filter(|(_, _, times)| is_used(times)).map(|(_, mib, _)| mib).sum::<u64>()
    };
    trace.disk = (1..DAYS * 24).map(|hour| sample(hour, 1_000 - others - in_use(hour))).collect();
    trace
}

fn sample(hour: i64, available_mib: u64) -> DiskSample {
    let (capacity_bytes, available_bytes) = (1_000 * MIB, available_mib * MIB);
    DiskSample { at: at(hour), file_system: FileSystem { capacity_bytes, available_bytes, ..FileSystem::default() } }
}

fn ruler() -> Ruler {
    let pulls = RepositoryPulls { pulls: 2, seconds: Some(9), last: at(0) };
    Ruler {
        since: at(0),
        until: at(DAYS * 24),
        counts_since: at(0),
        high_threshold_percent: 85,
        eviction: crate::model::EvictionLimits::default(),
        pulls: Arc::new([("r.example/a".to_owned(), pulls)].into()),
    }
}

fn policy(change: impl FnOnce(&mut ImagePolicy)) -> Policy {
    let mut policy = Policy::default();
    change(&mut policy.images);
    policy
}

fn max_age(hours: u64) -> Policy {
    policy(|images| images.max_age = Duration::from_hours(hours))
}

/// Returns the removals, as `name@hour`.
fn removals(trace: &Trace, policy: &Policy) -> String {
    let replay = Replay::of(trace, policy, &ruler());
    let hour = |at: Timestamp| at.duration_since(super::tests::at(0)).as_hours();
    let names =
        replay.removals.iter().map(|removal| format!("{}@{}", trace.images[removal.image].id(), hour(removal.at)));
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn nothing_is_removed_below_the_threshold() {
    let trace = node(100, &[("a", 300, &[(1, 2), (10, 12)]), ("b", 300, &[(3, 4)])]);
    let replay = Replay::of(&trace, &Policy::default(), &ruler());
    let expected = Totals { peak_used_bytes: 700 * MIB, peak_used_percent: 70, ..Totals::default() };
    assert_eq!((replay.totals, replay.removals), (expected, Vec::new()));
}

#[test]
fn the_image_that_was_used_least_recently_is_removed_and_pulled_again() {
    let trace = node(100, &[("a", 300, &[(1, 2), (20, 22)]), ("b", 300, &[(3, 4)]), ("c", 200, &[(6, 30)])]);
    assert_eq!(removals(&trace, &Policy::default()), "a@6 b@20");
    let totals = Replay::of(&trace, &Policy::default(), &ruler()).totals;
    assert_eq!((totals.pulled_again, totals.pulled_again_bytes, totals.pulled_again_seconds), (1, 300 * MIB, 9));
    assert_eq!((totals.peak_used_percent, totals.removed, totals.removed_bytes), (90, 2, 600 * MIB));
    assert_eq!(totals.above_high_threshold_seconds, 2 * 3_600, "before the passes at 6 and at 20");
    assert_eq!(totals.above_eviction_seconds, 2 * 3_600, "less than 15% is free");
}

#[test]
fn the_size_on_the_disk_counts_where_it_is_known() {
    let mut trace = node(0, &[("a", 9, &[(1, 2), (20, 22)])]);
    trace.images[0].disk_bytes = Some(30 * MIB);
    trace.disk.iter_mut().for_each(|sample| sample.file_system.available_bytes = 900 * MIB);
    let totals = Replay::of(&trace, &policy(|images| images.all_unused = true), &ruler()).totals;
    assert_eq!((totals.removed_bytes, totals.pulled_again_bytes), (60 * MIB, 30 * MIB));
}

#[test]
fn a_maximum_age_counts_from_the_last_use() {
    let trace = node(0, &[("a", 9, &[(1, 2), (20, 22)]), ("b", 9, &[(3, 4)])]);
    assert_eq!(removals(&trace, &max_age(10)), "a@13 b@15 a@43", "held: it was pulled again, so for twice as long");
    let unguarded = Policy { guards: Guards { keep_pulled_again: false, ..Guards::default() }, ..max_age(10) };
    assert_eq!(removals(&trace, &unguarded), "a@13 b@15 a@33");
}

#[test]
fn what_another_program_removes_is_no_pull_again() {
    let mut trace = node(0, &[("a", 9, &[(1, 2), (20, 22)])]);
    let collected = trace.events.iter_mut().filter(|event| event.event == ImageEvent::Collected);
    collected.for_each(|event| event.event = ImageEvent::Removed);
    let totals = Replay::of(&trace, &policy(|images| images.all_unused = true), &ruler()).totals;
    assert_eq!((totals.removed, totals.pulled_again), (0, 0));
}

#[test]
fn a_replay_begins_with_the_images_that_the_node_had() {
    let mut trace = node(0, &[("a", 300, &[(1, 2), (20, 22)]), ("b", 300, &[(3, 4)])]);
    trace.events.retain(|event| event.event != ImageEvent::Collected);
    let later = Ruler { since: at(10), ..ruler() };
    let totals = Replay::of(&trace, &policy(|images| images.all_unused = true), &later).totals;
    assert_eq!((totals.removed, totals.pulled_again), (3, 1), "both are there, and the first is used again");
}

#[test]
fn pinned_and_kept_images_stay() {
    let mut trace = node(0, &[("a", 9, &[(1, 2)]), ("b", 9, &[(1, 2)]), ("c", 9, &[(1, 2)])]);
    trace.images[0].image.pinned = true;
    let keep = policy(|images| {
        images.all_unused = true;
        images.keep = vec!["r.example/b*".into()];
    });
    assert_eq!(removals(&trace, &keep), "c@3");
}

/// Policies of each sort, on a node whose disk is small for its images.
fn policies() -> Vec<Policy> {
    let rule = |when: &str| RuleText {
        name: "r".to_owned(),
        subject: RuleSubject::Image,
        when: when.to_owned(),
        then: Then::Remove,
        until: None,
        resource: String::new(),
        note: String::new(),
    };
    let rule = Rule::compile(rule("image.unused > duration('7h')")).unwrap();
    let kubelet = |policy: Policy| Policy { profile: Profile::Kubelet, guards: Guards::of(Profile::Kubelet), ..policy };
    vec![
        Policy::default(),
        max_age(5),
        kubelet(max_age(5)),
        kubelet(max_age(30)),
        policy(|images| (images.max_age, images.keep) = (Duration::from_hours(5), vec!["r.example/a*".into()])),
        policy(|images| (images.max_age, images.high_threshold_percent) = (Duration::from_hours(40), 60)),
        policy(|images| images.all_unused = true),
        policy(|images| images.targets = vec!["total 400MiB..300MiB".parse::<ImageTarget>().unwrap()]),
        policy(|images| images.targets = vec!["free 400MiB..500MiB".parse::<ImageTarget>().unwrap()]),
        Policy { rules: [rule].into_iter().collect(), ..Policy::default() },
    ]
}

fn busy() -> Trace {
    let times: Vec<Vec<(i64, i64)>> =
        (0..9).map(|n| (0..6).map(|k| (n + 9 * k + 1, n + 9 * k + 3)).collect()).collect();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let uses: Vec<Uses> = names.iter().zip(&times).map(|(name, times)| (*name, 120, &**times)).collect();
    node(150, &uses)
}

#[test]
fn passes_that_are_not_planned_would_have_removed_nothing() {
    for (number, policy) in policies().iter().enumerate() {
        let replay = |plans_each| Replay::planning(&busy(), policy, &ruler(), plans_each);
        assert_eq!(replay(false), replay(true), "policy {number}");
        assert!(replay(false).totals.removed > 3, "policy {number} removes images");
    }
}

#[test]
fn the_suggestion_is_judged_by_what_did_not_choose_it() {
    let trace = node(0, &[("a", 100, &[(1, 2), (15, 16), (29, 30), (43, 44), (57, 58)])]);
    let in_force = Policy { guards: Guards { keep_pulled_again: false, ..Guards::default() }, ..max_age(5) };
    let found = suggest(&trace, &in_force, &ruler(), age_and_all_unused);
    assert_eq!(found.settings, ["0h false"]);
    assert_eq!(found.second_half_since, at(36));
    let again = [&found.first_half_in_force, &found.first_half, &found.second_half_in_force, &found.second_half];
    assert_eq!(again.map(|totals| totals.pulled_again), [2, 0, 2, 0]);
    let images = |images: &ImagePolicy| vec![format!("{}", *images == ImagePolicy::default())];
    assert_eq!(suggest(&trace, &Policy::default(), &ruler(), images).settings, ["true"]);
}

fn age_and_all_unused(images: &ImagePolicy) -> Vec<String> {
    vec![format!("{}h {}", images.max_age.as_secs() / 3600, images.all_unused)]
}

#[test]
fn the_second_half_goes_on_from_the_first_half_of_the_same_settings() {
    let trace = node(0, &[("a", 100, &[(1, 2), (40, 41)])]);
    let found = suggest(&trace, &max_age(10), &ruler(), age_and_all_unused);
    let (first, second) = (&found.first_half_in_force, &found.second_half_in_force);
    assert_eq!((first.removed, first.pulled_again), (1, 0));
    assert_eq!((second.removed, second.pulled_again), (1, 1), "the first half removed what is pulled again at 40");
    assert_eq!((second.peak_used_percent, first.peak_used_percent), (10, 10));
}

#[test]
fn where_all_unused_images_are_removed_the_suggestion_may_keep_them() {
    let trace = node(0, &[("a", 100, &[(1, 2), (15, 16), (29, 30), (43, 44), (57, 58)])]);
    let found = suggest(&trace, &policy(|images| images.all_unused = true), &ruler(), age_and_all_unused);
    assert_eq!(found.settings, ["0h false"]);
    assert_eq!((found.first_half_in_force.pulled_again, found.first_half.pulled_again), (2, 0));
}

#[test]
fn what_happened_is_the_disk_at_the_passes_and_the_removals_of_the_history() {
    let trace = node(600, &[("a", 300, &[(1, 2), (20, 22)])]);
    let removal = |hour, image: &str, pulled_again_at| ImageRemoval {
        at: at(hour),
        image: image.into(),
        freed_bytes: Some(7 * MIB),
        estimated_bytes: Some(9 * MIB),
        pulled_again_at,
    };
    let removals = [removal(23, "a", None), removal(3, "a", Some(at(20))), removal(-1, "a", Some(at(1)))];
    let totals = Totals::happened(&trace, &removals, &ruler(), at(0));
    let expected = Totals {
        peak_used_bytes: 900 * MIB,
        peak_used_percent: 90,
        above_high_threshold_seconds: 4 * 3_600,
        above_eviction_seconds: 4 * 3_600,
        removed: 2,
        removed_bytes: 14 * MIB,
        pulled_again: 1,
        pulled_again_bytes: 9 * MIB,
        pulled_again_seconds: 9,
    };
    assert_eq!(totals, expected, "the removal before the time does not count");
}
