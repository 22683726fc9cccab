//! Documents that a command, the service or a person wrote.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::{SignedDuration, Timestamp};
use kubegc::cli::input::listed_images;
use kubegc::fleet::{AppliedPolicy, Fates, NodePolicies, Pause};
use kubegc::lab::{Replay, Ruler, Totals, suggest};
use kubegc::model::{EvictionLimits, Pulls, Snapshot, Trace};
use kubegc::owners::{ClusterPlan, ClusterSnapshot, Propagation, explain, find_objects, predict_deletion};
use kubegc::plan::{Guards, ImageOrder, Plan, Policy, Profile, Scope, confirm, decide, update_memory};
use kubegc::pod_gc::{NodeStates, PodGcPolicy, PodsSnapshot};
use kubegc::rules::{Rule, RuleSubject, RuleText, Score, Then};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::dir;

const NODE: &str = include_str!("../../tests/data/cases/N6a-unknown-container-created-zero.json");
static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| serde_json::from_str(NODE).expect("a snapshot"));
const SUBJECTS: [RuleSubject; 6] = {
    use RuleSubject::{Checkpoint, Container, Image, Log, Object, Sandbox};
    [Image, Container, Sandbox, Log, Checkpoint, Object]
};
const NOW: Timestamp = Timestamp::constant(1_796_000_000, 0);

fn document<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    serde_json::from_slice(text).ok()
}

/// A snapshot of a node, with both profiles.
pub fn snapshot(text: &[u8]) {
    let Some(snapshot) = document::<Snapshot>(text) else { return };
    let safe = Policy::default();
    let kubelet = Policy { profile: Profile::Kubelet, guards: Guards::of(Profile::Kubelet), ..Policy::default() };
    for policy in [safe, kubelet] {
        let plan = decide(&snapshot, &policy, Scope::All);
        for kept in &plan.kept {
            let _ = kept.reason.explain();
        }
        let _ = confirm(plan, &snapshot, &policy);
        let _ = update_memory(&snapshot, &policy);
    }
}

/// A saved plan, compared with a node.
pub fn plan(text: &[u8]) {
    let Some(plan) = document::<Plan>(text) else { return };
    let _ = confirm(plan, &SNAPSHOT, &Policy::default());
}

/// A trace of images, replayed under the default settings and others.
pub fn trace(text: &[u8]) {
    let Some(trace) = document::<Trace>(text) else { return };
    let passes = || trace.disk.iter().map(|sample| sample.at);
    let (Some(since), Some(last)) = (passes().min(), passes().max()) else { return };
    let Ok(until) = last.checked_add(SignedDuration::from_secs(1)) else { return };
    let (eviction, pulls) = (EvictionLimits::default(), Arc::new(Pulls::default()));
    let ruler = Ruler { since, until, counts_since: since, high_threshold_percent: 85, eviction, pulls };
    let policy = Policy::default();
    let _ = Totals::happened(&trace, trace.removals.as_deref().unwrap_or_default(), &ruler, since);
    let _ = Replay::of(&trace, &policy, &ruler);
    let _ = suggest(&trace, &policy, &ruler, |_| Vec::new());
}

/// A snapshot of a cluster, and predictions for its objects.
pub fn cluster_snapshot(text: &[u8]) {
    let Some(snapshot) = document::<ClusterSnapshot>(text) else { return };
    let plan = kubegc::owners::plan(&snapshot);
    for kept in plan.kept.iter().take(4) {
        let _ = find_objects(&snapshot, &kept.object.kind.kind, &kept.object.name, None);
        let _ = explain(&snapshot, &kept.object);
        for policy in [Propagation::Background, Propagation::Foreground, Propagation::Orphan] {
            let _ = predict_deletion(&snapshot, &kept.object, policy);
        }
    }
}

/// A saved plan of a cluster, also as a baseline.
pub fn cluster_plan(text: &[u8]) {
    let Some(plan) = document::<ClusterPlan>(text) else { return };
    let _ = (plan.shown().count(), plan.stale_references().count());
}

/// The pods and nodes of a cluster.
pub fn pods_snapshot(text: &[u8]) {
    let Some(snapshot) = document::<PodsSnapshot>(text) else { return };
    let _ = kubegc::pod_gc::plan(&snapshot, &NodeStates::default(), &PodGcPolicy::default());
}

/// The policies of a node, as its file has them and as the API server shows them.
pub fn policies(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let images: Vec<_> = SNAPSHOT.images.as_ref().into_iter().flatten().collect();
    let shown = serde_json::from_str::<BTreeMap<String, AppliedPolicy>>(text).unwrap_or_default();
    let labels = [("pool".to_owned(), "a".to_owned())].into();
    for policies in [NodePolicies::read(text), NodePolicies::of(&shown, "node-1", &labels)] {
        let _ = policies.suspension(NOW).map(|cause| cause.to_string());
        let _ = policies.listed(NOW);
        let _ = policies.answers(&images, &Fates::new(), &[], NOW);
    }
}

/// A condition of a rule, or the score of images. The first byte selects the subject.
pub fn rules(input: &[u8]) {
    let Some((first, text)) = input.split_first() else { return };
    let Ok(when) = std::str::from_utf8(text) else { return };
    let subject = SUBJECTS[usize::from(*first) % SUBJECTS.len()];
    let (name, then) = ("a".to_owned(), if first & 8 == 0 { Then::Keep } else { Then::Remove });
    let (resource, note) = ("jobs.batch".to_owned(), String::new());
    let rule = Rule::compile(RuleText { name, subject, resource, when: when.to_owned(), then, until: None, note });
    let mut policy = Policy { rules: rule.into_iter().collect(), ..Policy::default() };
    if let Ok(score) = Score::compile(when) {
        policy.images.order = ImageOrder::Score(score);
    }
    let _ = decide(&SNAPSHOT, &policy, Scope::All);
}

/// The file of a pause. One that cannot be read is a pause without an end.
pub fn pause(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let pause = Pause::read(text);
    let _ = (pause.to_string(), pause.is_over(NOW));
}

/// A list of images, or a report of Trivy.
pub fn listed_images(text: &[u8]) {
    static DIR: LazyLock<TempDir> = LazyLock::new(dir);
    let file = DIR.path().join("images");
    std::fs::write(&file, text).expect("the file can be written");
    let Ok(names) = listed_images::of_file(&file) else { return };
    assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
    let _ = kubegc::fleet::ImageList::of(names);
}
