use std::path::PathBuf;

use jiff::SignedDuration;

use super::*;
use crate::model::ImageId;
use crate::plan::{
    FailureCause, Halt, ImageSummary, ImageTrigger, LogLimit, LogLimitNote, Measure, Outcome, PlanError, Policy,
    RemoveReason, Report, Scope, Summary, Target, decide,
};
use crate::record::tests::logged;
use crate::testing::fake_api::{Answer, FakeApi};

fn start() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn seconds(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

fn quiet() -> Pass {
    let snapshot = serde_json::from_value(serde_json::json!({ "taken_at": start() })).unwrap();
    let mut plan = decide(&snapshot, &Policy::default(), Scope::Images);
    plan.errors.clear();
    Pass {
        scope: Scope::All,
        ended_at: plan.taken_at,
        duration: None,
        plan,
        reports: Vec::new(),
        summary: Summary::default(),
        not_recorded: None,
    }
}

fn failing(error: PlanError) -> Pass {
    let mut pass = quiet();
    pass.plan.errors.push(error);
    pass
}

fn blind(source: &str) -> Pass {
    failing(PlanError::NotSeen { source: source.to_owned(), cause: "the runtime hangs".to_owned() })
}

fn full_disk() -> Pass {
    let (target_bytes, estimated_bytes, used_percent, began_by) = (1000, 300, 93, None);
    let mut pass = failing(PlanError::FreeDiskSpaceFailed { target_bytes, estimated_bytes, used_percent, began_by });
    pass.plan.images = ImageSummary { target_bytes: 1000, used_percent: Some(93), ..ImageSummary::default() };
    pass
}

/// Adds the outcomes of image removals to a pass.
fn with_images(mut pass: Pass, outcomes: &[(Outcome, u64)]) -> Pass {
    for (outcome, freed) in outcomes {
        let id = ImageId::from("sha256:1".to_owned());
        let target = Target::RemoveImage { id, tags: Vec::new(), digests: Vec::new(), estimated_bytes: 0 };
        let action = target.remove(RemoveReason::Unused { pressure: false });
        let (outcome, freed_bytes, measure) = (outcome.clone(), Some(*freed), Measure::Measured);
        let report = Report { action, outcome, freed_bytes, measure, note: None, proven_by: None, kept_until: None };
        pass.summary.add(&report);
    }
    pass
}

fn failed() -> Outcome {
    Outcome::Failed { error: "busy".to_owned(), cause: FailureCause::Runtime }
}

fn notices(notices: &mut Notices, scope: Scope, pass: &Pass) -> Vec<Notice> {
    notices.of(&Pass { scope, ..pass.clone() })
}

/// Returns the reasons and messages for the last of several passes.
fn sent(scope: Scope, passes: &[&Pass]) -> Vec<(&'static str, String)> {
    let (mut state, mut last) = (Notices::default(), Vec::new());
    for pass in passes {
        last = notices(&mut state, scope, pass);
    }
    last.into_iter().map(|notice| (notice.reason.as_str(), notice.message)).collect()
}

fn reasons(scope: Scope, passes: &[&Pass]) -> Vec<&'static str> {
    sent(scope, passes).into_iter().map(|(reason, _)| reason).collect()
}

#[test]
fn a_containers_pass_without_data_is_reported_each_time() {
    let mut pass = blind("containers");
    assert_eq!(
        sent(Scope::Containers, &[&pass]),
        [("ContainerGCFailed", "containers unavailable: the runtime hangs".to_owned())]
    );
    pass.plan.errors.extend(blind("sandboxes").plan.errors);
    let expected = "containers unavailable: the runtime hangs; sandboxes unavailable: the runtime hangs";
    assert_eq!(sent(Scope::Containers, &[&pass, &pass]), [("ContainerGCFailed", expected.to_owned())]);
}

#[test]
fn limits_on_logs_that_are_not_met_are_reported_together() {
    let mut pass = quiet();
    for (limit, of) in [("pod 1MiB", "shop/web"), ("node 1MiB", "n1")] {
        let limit: LogLimit = limit.parse().unwrap();
        let (of, left) = (of.to_owned(), crate::plan::FilesLeft::default());
        let note = LogLimitNote { limit, of, bytes: 2 << 20, at_least: false, kept: 0, left, most: None, unread: None };
        pass.plan.log_limits.push(note);
    }
    let text =
        |of: &str, limit: &str| format!("log files of {of} have 2.0MiB, over logs.limits ({limit}): what is left: ");
    let expected = format!("{}; {}", text("pod shop/web", "pod 1MiB"), text("node n1", "node 1MiB"));
    assert_eq!(sent(Scope::Containers, &[&pass]), [("LogsOverLimit", expected)]);
    assert_eq!(reasons(Scope::Images, &[&pass]), [""; 0]);
}

#[test]
fn a_hanging_runtime_that_ends_a_pass_is_reported() {
    let mut pass = quiet();
    pass.summary.halts = vec![Halt { kind: None, cause: "Version: no answer".to_owned(), not_begun: 3 }];
    let expected = "pass ended early: Version: no answer (3 actions not begun)";
    assert_eq!(sent(Scope::Containers, &[&pass]), [("ContainerGCFailed", expected.to_owned())]);
    pass.summary.halts[0].kind = Some(crate::plan::Kind::Container);
    assert_eq!(sent(Scope::Containers, &[&pass]), [], "failed removals are no event");
}

#[tokio::test]
async fn what_the_queue_has_no_room_for_is_dropped_with_one_line() {
    let (queue, _waiting) = mpsc::channel(1);
    let writing = Some((queue, tokio::spawn(std::future::pending())));
    let mut events = Events { node: "n1".to_owned(), notices: Notices::default(), writing };
    let pass = blind("containers");
    let lines = [1, 2].map(|_| logged(|| events.announce(start(), &pass)));
    assert_eq!(lines[0], "");
    assert_eq!(lines[1].matches("dropping the events of a pass").count(), 1, "{}", lines[1]);
}

#[test]
fn a_pass_that_did_its_work_is_worth_nothing() {
    assert_eq!(sent(Scope::Containers, &[&quiet()]), []);
    assert_eq!(sent(Scope::Images, &[&quiet(), &quiet()]), []);
}

#[test]
fn an_images_pass_is_reported_from_the_second_failure() {
    let (bad, good) = (blind("images"), quiet());
    for (passes, expected) in [
        (&[&bad][..], &[][..]),
        (&[&bad, &bad], &["ImageGCFailed"]),
        (&[&bad, &bad, &bad], &["ImageGCFailed"]),
        (&[&bad, &good, &bad], &[]),
        (&[&bad, &good, &bad, &bad], &["ImageGCFailed"]),
    ] {
        assert_eq!(reasons(Scope::Images, passes), expected, "{} passes", passes.len());
    }
}

#[test]
fn the_two_loops_do_not_count_each_others_failures() {
    let (mut state, bad) = (Notices::default(), blind("images"));
    assert_eq!(notices(&mut state, Scope::Images, &bad), []);
    assert_eq!(notices(&mut state, Scope::Containers, &quiet()), []);
    assert_eq!(notices(&mut state, Scope::Images, &bad).len(), 1);
}

#[test]
fn an_unremovable_image_fails_the_pass() {
    let pass = with_images(quiet(), &[(failed(), 0), (failed(), 0)]);
    let expected = ("ImageGCFailed", "2 images could not be removed".to_owned());
    assert_eq!(sent(Scope::Images, &[&pass, &pass]), [expected]);
    assert_eq!(reasons(Scope::Containers, &[&pass, &pass]), [""; 0], "removals of containers are no event");
}

#[test]
fn a_disk_without_capacity_is_reported_at_once() {
    let pass = failing(PlanError::InvalidDiskCapacity { mountpoint: PathBuf::from("/images") });
    let expected = ("InvalidDiskCapacity", "invalid capacity 0 on image filesystem /images".to_owned());
    assert_eq!(sent(Scope::Images, &[&pass]), [expected]);
    assert_eq!(reasons(Scope::Images, &[&pass, &pass]), ["InvalidDiskCapacity", "ImageGCFailed"]);
}

#[test]
fn a_still_full_disk_is_reported_with_measured_bytes() {
    let pass = with_images(full_disk(), &[(Outcome::Removed {}, 250)]);
    let sent_at_once = sent(Scope::Images, &[&pass]);
    let (reason, words) = &sent_at_once[0];
    assert_eq!(*reason, "FreeDiskSpaceFailed");
    assert!(words.contains("93 %") && words.contains("1000B were to be freed, 250B were reclaimed"), "{words}");
    assert_eq!(reasons(Scope::Images, &[&pass, &pass]), ["FreeDiskSpaceFailed", "ImagesRemoved", "ImageGCFailed"]);
}

/// The disk may be half empty then, and what remains of the images is kept.
#[test]
fn a_missed_target_is_named_instead_of_the_disk() {
    let mut pass = with_images(full_disk(), &[(Outcome::Removed {}, 250)]);
    pass.plan.images.triggered_by = Some(ImageTrigger::TotalBytes);
    pass.plan.images.began_by = Some("9.0GiB of images (images.targets: total 8GiB..7GiB)".to_owned());
    let (_, words) = &sent(Scope::Images, &[&pass])[0];
    let expected =
        "images: 9.0GiB of images (images.targets: total 8GiB..7GiB), 1000B were to be freed, 250B were reclaimed. No";
    assert!(words.contains(expected) && !words.contains("93 %") && !words.contains("other data"), "{words}");
}

/// The reason may be that all unused images are too young, or that the agent only observes.
#[test]
fn a_still_full_disk_says_what_is_kept_and_why() {
    let mut pass = with_images(full_disk(), &[(Outcome::WouldRemove {}, 0)]);
    pass.plan.kept.push(
        serde_json::from_value(serde_json::json!({
            "kind": "image", "id": "sha256:1", "age_seconds": 60, "size_bytes": 3_758_096_384_u64,
            "reason": "younger_than_min_age", "min_age_seconds": 120,
        }))
        .unwrap(),
    );
    let (_, words) = &sent(Scope::Images, &[&pass])[0];
    assert!(words.contains("nothing was removed, because kubegc only observes"), "{words}");
    assert!(words.contains("Kept: 3.5GiB in 1 image: younger than min_age (2m) until "), "{words}");
}

#[test]
fn a_low_estimate_is_ignored_if_enough_is_reclaimed() {
    let pass = with_images(full_disk(), &[(Outcome::Removed {}, 1200)]);
    assert_eq!(reasons(Scope::Images, &[&pass, &pass]), ["ImagesRemoved"]);
}

#[test]
fn a_measured_shortfall_is_reported_whatever_was_planned() {
    let mut pass = with_images(quiet(), &[(Outcome::Removed {}, 10)]);
    pass.summary.shortfall_bytes = 5;
    assert_eq!(reasons(Scope::Images, &[&pass]), ["FreeDiskSpaceFailed", "ImagesRemoved"]);
    pass.summary.is_stopped = true;
    assert_eq!(reasons(Scope::Images, &[&pass]), ["ImagesRemoved"], "a pass that was stopped did not come to its end");
}

#[test]
fn a_suspension_is_one_event_when_it_begins_and_one_when_it_ends() {
    let suspended = |cause: &str| {
        let mut pass = quiet();
        pass.summary.suspended = Some(cause.to_owned());
        pass
    };
    let paused = suspended("paused by root: incident 7");
    let first = sent(Scope::Containers, &[&paused]);
    assert_eq!(first, [("RemovalsSuspended", "Passes remove nothing: paused by root: incident 7.".to_owned())]);
    assert!(reasons(Scope::Images, &[&paused, &paused]).is_empty());
    assert_eq!(reasons(Scope::Images, &[&paused, &suspended("paused by root: incident 8")]), ["RemovalsSuspended"]);
    assert_eq!(reasons(Scope::Images, &[&paused, &quiet()]), ["RemovalsResumed"]);
    assert!(reasons(Scope::Images, &[&paused, &quiet(), &quiet()]).is_empty());
    let mut freeing = quiet();
    freeing.plan.images.stop_at_available_bytes = 1;
    assert!(reasons(Scope::Images, &[&paused, &freeing]).is_empty(), "it ends no quiet hours");
}

#[test]
fn removed_images_are_one_event_a_pass() {
    let pass =
        with_images(quiet(), &[(Outcome::Removed {}, 10), (Outcome::AlreadyRemoved {}, 0), (Outcome::Removed {}, 20)]);
    let expected = ("ImagesRemoved", "Removed 2 unused images; 30B reclaimed.".to_owned());
    assert_eq!(sent(Scope::Images, &[&pass]), [expected]);
    assert!(!Reason::ImagesRemoved.is_warning());
}

#[tokio::test(start_paused = true)]
async fn the_events_of_passes_are_about_the_node() {
    let api = FakeApi::answering(|_| Answer::Text(200, "{}".to_owned()));
    let mut events = Events::start(Some(api.connection()), "node-1");
    for (at, source) in [(0, "containers"), (60, "containers"), (120, "sandboxes"), (180, "containers")] {
        events.announce(seconds(at), &blind(source));
    }
    events.end().await;
    let made = api.made();
    let counts: Vec<_> = made.iter().map(|made| (made.method.as_str(), made.body["count"].as_u64())).collect();
    assert_eq!(counts, [("POST", Some(1)), ("PATCH", Some(2)), ("POST", Some(1)), ("PATCH", Some(3))]);
    let name = format!("node-1.{:x}", start().as_nanosecond());
    let expected = serde_json::json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "node-1", "uid": "node-1"},
        "type": "Warning", "reason": "ContainerGCFailed", "message": "containers unavailable: the runtime hangs", "count": 1,
        "source": {"component": "kubegc", "host": "node-1"},
        "firstTimestamp": "2026-11-21T12:00:00Z", "lastTimestamp": "2026-11-21T12:00:00Z",
    });
    assert_eq!(made[0].body, expected);
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_server_delays_no_pass() {
    let api = FakeApi::answering(|_| Answer::Never);
    let (mut events, begun) = (Events::start(Some(api.connection()), "node-1"), tokio::time::Instant::now());
    for at in 0..1000 {
        events.announce(seconds(at), &blind("containers"));
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    events.end().await;
    assert_eq!(begun.elapsed(), SHUTDOWN_WAIT);
}
