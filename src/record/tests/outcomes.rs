//! The memory after outcomes: back-offs, removed images, the baseline.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{at, container, failed, image, refused, removed};
use crate::model::{DiskMemory, DiskUse, Failure, ImageMemory, Memory, RemovedImage};
use crate::plan::{Kind, Outcome, Refusal, RemoveReason, Report, Summary, Target, after_outcomes, after_run};

const MINUTE: Duration = Duration::from_mins(1);

fn retry_seconds(memory: &Memory, key: &str) -> i64 {
    memory.failures[key].retry_at.as_second() - at(0).as_second()
}

#[test]
fn failure_back_off_doubles_up_to_an_hour() {
    let mut memory = Memory::default();
    let mut waits = Vec::new();
    for _ in 0..8 {
        memory = after_outcomes(&memory, &[failed(container("c1"), "busy")], at(0), at(0), MINUTE);
        waits.push(retry_seconds(&memory, "container/c1"));
    }
    assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
    assert_eq!((memory.failures["container/c1"].count, &*memory.failures["container/c1"].error), (8, "busy"));
}

#[test]
fn a_thousand_failures_still_back_off_an_hour() {
    let failure = Failure { count: u32::MAX, retry_at: at(0), error: String::new() };
    let memory = Memory { failures: [("container/c1".to_owned(), failure)].into(), ..Memory::default() };
    let memory = after_outcomes(&memory, &[failed(container("c1"), "busy")], at(0), at(0), MINUTE);
    assert_eq!(retry_seconds(&memory, "container/c1"), 3600);
    assert_eq!(memory.failures["container/c1"].count, u32::MAX);
}

#[test]
fn without_back_off_a_failure_is_retried_next_pass() {
    let memory = after_outcomes(&Memory::default(), &[failed(container("c1"), "busy")], at(5), at(5), Duration::ZERO);
    assert_eq!(memory.failures["container/c1"].retry_at, at(5));
}

#[test]
fn success_clears_a_failure_and_refusal_keeps_it() {
    let failures = [failed(container("c1"), "busy"), failed(container("c2"), "busy"), failed(container("c3"), "busy")];
    let memory = after_outcomes(&Memory::default(), &failures, at(0), at(0), MINUTE);
    let already = Report { outcome: Outcome::AlreadyRemoved {}, ..removed(container("c2"), None) };
    let reports = [removed(container("c1"), None), already, refused(container("c3"))];
    let memory = after_outcomes(&memory, &reports, at(60), at(60), MINUTE);
    assert_eq!(memory.failures.keys().collect::<Vec<_>>(), ["container/c3"]);
}

fn refused_for(refusal: Refusal) -> Report {
    Report { outcome: Outcome::Refused { refusal }, ..refused(container("c1")) }
}

/// Returns the back-offs after refusals in consecutive passes.
fn waits(refusal: &Refusal, passes: usize) -> Vec<i64> {
    let mut memory = Memory::default();
    let pass = |_| {
        memory = after_outcomes(&memory, &[refused_for(refusal.clone())], at(0), at(0), MINUTE);
        memory.failures.get("container/c1").map_or(0, |_| retry_seconds(&memory, "container/c1"))
    };
    (0..passes).map(pass).collect()
}

#[test]
fn a_lasting_refusal_backs_off_like_a_failure() {
    assert_eq!(waits(&Refusal::ForeignPath, 4), [60, 120, 240, 480]);
}

#[test]
fn a_refusal_visible_to_plans_backs_off_if_repeated() {
    for refusal in [
        Refusal::StateChanged,
        Refusal::Ready,
        Refusal::HasContainers,
        Refusal::InUse,
        Refusal::Pinned,
        Refusal::NamedByPod,
        Refusal::InUseLink,
        Refusal::PodPresent,
    ] {
        assert_eq!(waits(&refusal, 4), [0, 120, 240, 480], "{refusal:?}");
    }
}

#[test]
fn without_a_source_answer_the_next_pass_retries() {
    assert_eq!(waits(&Refusal::PodNotProven, 3), [0, 0, 0]);
    let memory = after_outcomes(&Memory::default(), &[refused_for(Refusal::PodNotProven)], at(0), at(0), MINUTE);
    assert!(memory.failures.is_empty());
}

#[test]
fn a_back_off_after_a_refusal_names_the_refusal() {
    let report = Report { note: Some("a mount".to_owned()), ..refused_for(Refusal::ForeignPath) };
    let memory = after_outcomes(&Memory::default(), &[report], at(0), at(0), MINUTE);
    assert_eq!(memory.failures["container/c1"].error, "refused: the path is not ours: a mount");
}

#[test]
fn a_failure_not_retried_for_a_day_is_forgotten() {
    let memory = after_outcomes(&Memory::default(), &[failed(container("c1"), "busy")], at(0), at(0), MINUTE);
    let day = 24 * 60 * 60;
    assert_eq!(after_outcomes(&memory, &[], at(day + 59), at(day + 59), MINUTE).failures.len(), 1);
    assert_eq!(after_outcomes(&memory, &[], at(day + 60), at(day + 60), MINUTE).failures.len(), 0);
}

#[test]
fn what_a_run_reclaimed_is_of_the_disk_of_its_objects() {
    let disk = |of| DiskMemory { holds: vec![of], at: at(0), used_bytes: 9, reclaimed_bytes: 1, growth: Vec::new() };
    let disks = [("/images", DiskUse::Images), ("/logs", DiskUse::Logs), ("/kubelet", DiskUse::Kubelet)];
    let disks = disks.map(|(path, of)| (path.into(), disk(of))).into();
    let freed_bytes = [(Kind::Container, 20), (Kind::Image, 300), (Kind::LogDir, 4000)].into();
    let summary = Summary { freed_bytes, ..Summary::default() };
    let after = after_run(&Memory { disks, ..Memory::default() }, &summary);
    assert_eq!(after.disks.values().map(|disk| disk.reclaimed_bytes).collect::<Vec<_>>(), [321, 1, 4001]);
}

/// Removes an image by age, `max_age_seconds`, or for space.
fn remove(memory: &Memory, id: &str, max_age_seconds: Option<i64>, at: Timestamp) -> Memory {
    let mut action = image(id);
    if let Some(max_age_seconds) = max_age_seconds {
        action.reason = RemoveReason::Age { max_age_seconds, unused_seconds: None };
    }
    after_outcomes(memory, &[removed(action, Some(1))], at, at, MINUTE)
}

fn pulled_again(mut memory: Memory, id: &str, at: Timestamp) -> Memory {
    Arc::make_mut(memory.removed_images.get_mut(&id.into()).unwrap()).pulled_again_at = Some(at);
    memory
}

#[test]
fn only_what_kubegc_removed_is_remembered_as_removed() {
    let already = Report { outcome: Outcome::AlreadyRemoved {}, ..removed(image("sha256:bb"), None) };
    let mut action = image("sha256:aa");
    if let Target::RemoveImage { digests, .. } = &mut action.target {
        *digests = ["r.example/a@sha256:01", "mirror.example/a@sha256:01"].map(str::to_owned).to_vec();
    }
    let would = Report { outcome: Outcome::WouldRemove {}, ..removed(image("sha256:dd"), None) };
    let reports = [removed(action, Some(1)), already, failed(image("sha256:cc"), "busy"), would];
    let user = Some("shop/web/app".to_owned());
    let past = ImageMemory {
        id: "sha256:aa".into(),
        first_seen: Some(at(0)),
        last_used: Some(at(0)),
        last_used_by: user.clone(),
    };
    let memory = Memory { images: [past].into(), ..Memory::default() };
    let memory = after_outcomes(&memory, &reports, at(599), at(600), MINUTE);
    let expected = RemovedImage {
        at: at(600),
        reason: "space".to_owned(),
        bytes: 7 << 20,
        digests: vec!["sha256:01".to_owned()],
        unused_seconds: 600,
        last_used: Some(at(0)),
        last_used_by: user,
        ..RemovedImage::default()
    };
    assert_eq!(memory.removed_images, [("sha256:aa".into(), Arc::new(expected))].into());
}

#[test]
fn the_oldest_of_too_many_removals_are_forgotten() {
    let most = i64::try_from(RemovedImage::MOST).unwrap();
    let memory = (0..most + 2).fold(Memory::default(), |memory, n| remove(&memory, &format!("i{n}"), None, at(n)));
    assert_eq!(memory.removed_images.len(), RemovedImage::MOST);
    let has = |id: &str| memory.removed_images.contains_key(&id.into());
    assert_eq!([has("i0"), has("i1"), has("i2"), has(&format!("i{}", most + 1))], [false, false, true, true]);
    let again = remove(&memory, "i2", None, at(most + 9));
    assert_eq!(again.removed_images.len(), RemovedImage::MOST, "a removal of the same image replaces it");
}

#[test]
fn a_removal_after_a_hold_has_the_length_of_the_hold() {
    let unused = |memory: &Memory| memory.removed_images.values().next().unwrap().unused_seconds;
    let first = remove(&Memory::default(), "i", Some(100), at(0));
    let soon = pulled_again(first.clone(), "i", at(99));
    let late = pulled_again(first.clone(), "i", at(101));
    assert_eq!(unused(&first), 100);
    assert_eq!(unused(&remove(&soon, "i", Some(100), at(500))), 200);
    assert_eq!(unused(&remove(&late, "i", Some(100), at(500))), 100, "the removal was worthwhile");
    let by_space = pulled_again(remove(&Memory::default(), "i", None, at(0)), "i", at(1));
    assert_eq!(unused(&remove(&by_space, "i", Some(100), at(500))), 100, "for another reason");
    assert_eq!(unused(&remove(&Memory::default(), "i", None, at(0))), 60, "not known");
}

#[test]
fn a_removed_image_counts_as_new_when_it_returns() {
    let image_memory =
        |id: &str| ImageMemory { id: id.into(), first_seen: Some(at(0)), last_used: None, last_used_by: None };
    let memory = Memory { images: [image_memory("sha256:aa"), image_memory("sha256:bb")].into(), ..Memory::default() };
    let reports = [removed(image("sha256:aa"), Some(1)), failed(image("sha256:bb"), "busy")];
    let memory = after_outcomes(&memory, &reports, at(0), at(0), MINUTE);
    assert_eq!(*memory.images, [image_memory("sha256:bb")]);
}
