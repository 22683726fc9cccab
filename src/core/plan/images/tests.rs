//! Which unused images remain, and why. The tests of `image_keep` show what counts as a use.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{Container, FileSystem, Image, ListCounts, RemovedImage, Seen, Snapshot};
use crate::plan::document::action::Kind;
use crate::plan::document::plan_error::PlanError;
use crate::plan::document::{ImageSummary, ImageTrigger};
use crate::plan::policy::Policy;
use crate::plan::tests::node::{Node, Row, ago, hold, node};

fn table<const ROWS: usize>(rows: [Row; ROWS]) {
    hold(&[Kind::Image], rows);
}

/// Three unused images of 30 bytes each on a disk with so many of 1000 bytes free. The thresholds are 85 % and 80 %.
fn three(available_bytes: u64) -> Node {
    node().image("never", 300).image("old", 300).used(200).image("new", 300).used(100).disk(available_bytes)
}

/// Makes the file system of the images unavailable.
fn no_disk(snapshot: &mut Snapshot) {
    snapshot.image_filesystem = Seen::NotSeen("no answer".to_owned());
}

fn max_age(minutes: u64) -> impl Fn(&mut Policy) {
    move |policy| policy.images.max_age = Duration::from_mins(minutes)
}

fn off(policy: &mut Policy) {
    policy.images.high_threshold_percent = 100;
}

fn all_unused(policy: &mut Policy) {
    policy.images.all_unused = true;
}

#[test]
#[rustfmt::skip]
fn the_high_threshold_removes_the_least_recently_used_images() {
    let all = "never old new: space";
    let equal = |policy: &mut Policy| policy.images.low_threshold_percent = 85;
    let large = |image: &mut Image| image.size_bytes = 900;
    let forget_old = |snapshot: &mut Snapshot| Arc::make_mut(&mut snapshot.memory.images)[1].id = "other".into();
    table([
        ("below the high threshold", three(160), "never new old: below_threshold", ""),
        ("at the high threshold, until the sizes reach the low one", three(150),
            "new: target_reached", "never old: space"),
        ("the used space in percent is rounded up", three(159), "new: target_reached", "never old: space"),
        ("the sizes reach the low threshold exactly", three(140), "new: target_reached", "never old: space"),
        ("one byte is missing", three(139), "", all),
        ("the sizes do not reach the low threshold", three(1), "", all),
        ("never used images come first, then by first sight",
            node().image("b", 100).image("c", 200).image("a", 300).used(299).disk(130), "", "c b a: space"),
        ("then by ID", node().image("b", 300).image("a", 300).disk(100), "", "a b: space"),
        ("without a history an image is first seen now", three(100).but(forget_old),
            "old: younger_than_min_age", "never new: space"),
        ("an image below the minimum age", three(100).image("young", 1), "young: younger_than_min_age", all),
        ("an image at the minimum age", three(100).image("young", 2), "", "never young old new: space"),
        ("an image that was in use when the pass began", three(100).image("used", 300).used(0),
            "used: used_meanwhile", all),
        ("an image that is kept reclaims nothing", three(140).image("young", 1).which(large),
            "new: target_reached, young: younger_than_min_age", "never old: space"),
        ("equal thresholds: there is nothing to reclaim", three(150).set(equal), "never new old: below_threshold", ""),
        ("equal thresholds: the kubelet removes one all the same", three(150).kubelet().set(equal),
            "new old: target_reached", "never: space"),
        ("a removal failed before", three(100).failed("image/old", 1), "old: backing_off", "never new: space"),
    ]);
}

#[test]
#[rustfmt::skip]
fn images_unused_beyond_the_maximum_age_are_removed() {
    let started = |minutes| move |snapshot: &mut Snapshot| snapshot.memory.agent_started_at = Some(ago(minutes));
    let young = |policy: &mut Policy| policy.images.min_age = Duration::from_mins(10);
    let fresh = || node().image("fresh", 5).set(young).set(max_age(3));
    table([
        ("longer than the maximum age", three(500).set(max_age(150)), "new: within_max_age", "never old: age"),
        ("for exactly the maximum age", three(500).set(max_age(200)), "new old: within_max_age", "never: age"),
        ("never used, and first seen as long ago", three(500).set(max_age(300)), "never new old: within_max_age", ""),
        ("below the minimum age too", fresh(), "fresh: younger_than_min_age", ""),
        ("in use when the pass began", fresh().used(0), "fresh: younger_than_min_age", ""),
        ("the kubelet removes what was never used, however young", fresh().but(started(9)).kubelet(), "", "fresh: age"),
        ("the kubelet waits for the maximum age after its start",
            three(500).but(started(150)).kubelet().set(max_age(150)), "never new old: within_max_age", ""),
        ("and then removes images", three(500).but(started(151)).kubelet().set(max_age(150)),
            "new: within_max_age", "never old: age"),
        ("to the kubelet the maximum age itself is not longer",
            three(500).but(started(999)).kubelet().set(max_age(200)), "new old: within_max_age", "never: age"),
        ("the kubelet does not know its start", three(500).kubelet().set(max_age(150)),
            "never new old: within_max_age", ""),
        ("a disk above the threshold", three(140).set(max_age(150)), "", "never old: age, new: space"),
        ("a disk that is unavailable", three(500).but(no_disk).set(max_age(150)),
            "new: within_max_age", "never old: age"),
        ("image removal for space is off", three(10).set(off).set(max_age(150)),
            "new: within_max_age", "never old: age"),
    ]);
}

/// The kubelet removes and pulls such an image again and again (kubernetes#132403).
#[test]
#[rustfmt::skip]
fn an_image_that_was_pulled_again_is_kept_for_twice_as_long() {
    // `old` is unused for 200 minutes. It was removed after 150, and pulled again after this many.
    let removed = |reason: &str, back: i64, unused: i64| {
        let (at, pulled_again_at) = (ago(290 + back), Some(ago(290)));
        let reason = reason.to_owned();
        let image = RemovedImage { at, reason, pulled_again_at, unused_seconds: unused * 60, ..RemovedImage::default() };
        move |snapshot: &mut Snapshot| _ = snapshot.memory.removed_images.insert("old".into(), Arc::new(image.clone()))
    };
    let by_age = || three(500).set(max_age(150)).but(removed("age", 150, 150));
    let not_noted = |snapshot: &mut Snapshot| {
        let image = snapshot.memory.removed_images.values_mut().next().unwrap();
        *image = Arc::new(RemovedImage { at: ago(150), pulled_again_at: None, ..RemovedImage::clone(image) });
    };
    let target = |policy: &mut Policy| policy.images.targets = vec!["total 50B..40B".parse().unwrap()];
    table([
        ("within the maximum age", by_age(), "new: within_max_age, old: pulled_again", "never: age"),
        ("later than the maximum age", three(500).set(max_age(150)).but(removed("age", 151, 150)),
            "new: within_max_age", "never old: age"),
        ("unused for twice as long", three(500).set(max_age(99)).but(removed("age", 99, 99)), "", "never old new: age"),
        ("for exactly twice as long", three(500).set(max_age(100)).but(removed("age", 100, 100)),
            "new: within_max_age, old: pulled_again", "never: age"),
        ("removed for another reason", three(500).set(max_age(150)).but(removed("space", 1, 150)),
            "new: within_max_age", "never old: age"),
        ("no pass has noted it yet", by_age().but(not_noted), "new: within_max_age, old: pulled_again", "never: age"),
        ("space is needed", by_age().disk(140), "", "never: age, old new: space"),
        ("a target", by_age().set(target), "", "never: age, old new: target"),
        ("image removal for space is off", by_age().set(off), "new: within_max_age, old: pulled_again", "never: age"),
        ("all are requested", by_age().set(all_unused), "", "never old new: unused"),
        ("the kubelet has no such rule", by_age().but(|snapshot| snapshot.memory.agent_started_at = Some(ago(999))).kubelet(),
            "new: within_max_age", "never old: age"),
    ]);
}

#[test]
#[rustfmt::skip]
fn all_unused_images_are_removed_if_requested() {
    let young = || three(500).image("young", 1).image("used", 300).used(0);
    table([
        ("all are requested", young().set(all_unused),
            "used: used_meanwhile, young: younger_than_min_age", "never old new: unused"),
        ("all are requested although the removal is off", three(500).set(off).set(all_unused),
            "", "never old new: unused"),
        ("all are requested although the disk is unavailable", three(500).but(no_disk).set(all_unused),
            "", "never old new: unused"),
        ("the removal is off", three(1).set(off), "never new old: image_gc_off", ""),
        ("one percent less is not off", three(1).set(|policy| policy.images.high_threshold_percent = 99),
            "", "never old new: space"),
    ]);
}

#[test]
#[rustfmt::skip]
fn nothing_is_unused_without_a_trusted_observation() {
    let fell = ListCounts { images: 9, ..ListCounts::default() };
    let full = || three(100);
    table([
        ("the disk is unavailable", full().but(no_disk), "never new old: step_failed", ""),
        ("the disk has no capacity", full().but(|snapshot| snapshot.image_filesystem = Seen::Seen(FileSystem::default())),
            "never new old: step_failed", ""),
        ("the containers are unavailable",
            full().but(|snapshot| snapshot.containers = Seen::NotSeen("no answer".into())),
            "never new old: step_failed", ""),
        ("the pulls are unavailable", full().but(|snapshot| snapshot.image_uses = Seen::NotSeen("no answer".into())),
            "never new old: step_failed", ""),
        ("the sandbox image is unavailable",
            full().but(|snapshot| snapshot.sandbox_image = Seen::NotSeen("no answer".into())),
            "never new old: step_failed", ""),
        ("and no guard needs it",
            full().kubelet().but(|snapshot| snapshot.sandbox_image = Seen::NotSeen("no answer".into())),
            "", "never old new: space"),
        ("the images are unavailable", full().but(|snapshot| snapshot.images = Seen::NotSeen("no answer".into())),
            "", ""),
        ("the list of images became much shorter", full().but(|snapshot| snapshot.memory.last_counts = Some(fell)),
            "never new old: list_fell", ""),
        ("the runtime has just started", full().but(|snapshot| snapshot.listening_since = Seen::Seen(Some(ago(0)))),
            "never new old: runtime_just_started", ""),
        ("the runtime has run for a minute", full().but(|snapshot| snapshot.listening_since = Seen::Seen(Some(ago(1)))),
            "", "never old new: space"),
    ]);
}

#[test]
#[rustfmt::skip]
fn images_in_use_are_kept_on_a_full_disk() {
    let full = || node().image("a", 300).image("b", 300).disk(1);
    let by = |change: fn(&mut Container)| full().running("web/app", "c", 9).whose(change);
    let tagged = |node: Node| node.which(|image| image.tags = vec!["docker.io/library/web:1".to_owned()]);
    let named = || tagged(full()).running("web/app", "c", 9).whose(|container| container.image = Some("web:1".into()));
    let entry = |node: Node, pinned| node.image("b", 300).which(|image| image.pinned = pinned);
    let twice = |first, second| entry(entry(node().disk(1), first), second);
    let keep = |policy: &mut Policy| policy.images.keep = vec!["*/web:*".into()];
    table([
        ("by its ID", by(|container| container.image_id = Some("b".into())), "b: in_use", "a: space"),
        ("by its name", named(), "b: in_use", "a: space"),
        ("to the kubelet the name is no use", named().kubelet(), "", "a b: space"),
        ("as a volume", by(|container| container.image_volumes = vec!["b".into()]), "b: image_volume", "a: space"),
        ("it is pinned", full().which(|image| image.pinned = true), "b: pinned", "a: space"),
        ("one of two entries is pinned", twice(true, false), "b: pinned", ""),
        ("to the kubelet the last entry counts", twice(true, false).kubelet(), "", "b: space"),
        ("the last entry is pinned", twice(false, true).kubelet(), "b: pinned", ""),
        ("a keep pattern matches", tagged(full()).set(keep), "b: keep_pattern", "a: space"),
        ("a keep pattern for other names", full().set(keep), "", "a b: space"),
    ]);
}

#[test]
fn the_first_using_container_by_id_is_reported() {
    let uses = |ids: [&str; 2], change: fn(&mut Container)| {
        let node =
            ids.into_iter().fold(node().image("b", 300), |node, id| node.running("web/app", id, 9).whose(change));
        let reason = node.plan().kept.into_iter().find(|kept| kept.kind == Kind::Image).unwrap().reason;
        serde_json::to_value(reason).unwrap()["container"].clone()
    };
    for ids in [["c1", "c2"], ["c2", "c1"]] {
        assert_eq!(uses(ids, |container| container.image_id = Some("b".into())), "c1");
        assert_eq!(uses(ids, |container| container.image_volumes = vec!["b".into()]), "c1");
    }
}

#[test]
fn the_plan_shows_the_image_steps_goal_and_result() {
    let summary = |node: &Node| {
        let ImageSummary { reserve, .. } = node.plan().images;
        let reserve: Vec<_> = reserve.iter().map(|action| action.target.id()).collect();
        (ImageSummary { reserve: Vec::new(), ..node.plan().images }, reserve)
    };
    let nothing = ImageSummary::default;
    let used = |percent| ImageSummary { used_percent: Some(percent), ..nothing() };
    let by = |trigger, rest| ImageSummary { triggered_by: Some(trigger), ..rest };
    let space = |used_percent, target_bytes, shortfall_bytes| {
        let goal = ImageSummary { target_bytes, shortfall_bytes, stop_at_available_bytes: 200, ..used(used_percent) };
        by(ImageTrigger::PercentUsed, goal)
    };
    let new = || vec!["new".to_owned()];
    assert_eq!(summary(&three(160)), (used(84), Vec::new()));
    assert_eq!(summary(&three(150)), (space(85, 50, 0), new()));
    assert_eq!(summary(&three(150).kubelet()), (space(85, 50, 0), Vec::new()), "the kubelet does not measure");
    assert_eq!(summary(&three(1)), (space(100, 199, 109), Vec::new()));
    assert_eq!(summary(&three(500).set(max_age(150))), (by(ImageTrigger::Age, used(50)), Vec::new()));
    assert_eq!(summary(&three(500).set(max_age(400))), (used(50), Vec::new()));
    assert_eq!(summary(&three(1).set(all_unused)), (by(ImageTrigger::AllUnused, nothing()), Vec::new()));
    assert_eq!(summary(&three(1).set(off)), (nothing(), Vec::new()));
}

#[test]
fn a_failed_image_step_is_a_plan_error() {
    let no_capacity = |snapshot: &mut Snapshot| snapshot.image_filesystem = Seen::Seen(FileSystem::default());
    let invalid = PlanError::InvalidDiskCapacity { mountpoint: "".into() };
    let no_answer = PlanError::NotSeen { source: "image_filesystem".to_owned(), cause: "no answer".to_owned() };
    let full =
        PlanError::FreeDiskSpaceFailed { target_bytes: 199, estimated_bytes: 90, used_percent: 100, began_by: None };
    for (node, errors) in [
        (three(1), vec![full]),
        (three(139), vec![]),
        (three(1).but(no_disk), vec![no_answer]),
        (three(1).but(no_capacity), vec![invalid.clone()]),
        (three(1).set(off), vec![]),
        (three(1).set(off).but(no_disk), vec![]),
        (three(1).set(off).but(no_capacity), vec![invalid]),
    ] {
        assert_eq!(node.plan().errors, errors);
    }
}
