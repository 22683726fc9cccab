//! Computes the memory after a pass, as data.
//!
//! An unknown image is first seen now, and an image in use is last used now. Removed images are deleted from the
//! memory. A pod is absent since the first of an unbroken series of snapshots without it. A snapshot that does not show
//! whether the pod exists changes nothing.
//!
//! The memory also has the pods that rules for logs ask about. Such a rule decides when a pod is deleted, so what it asks must be known from before.

mod disk_growth;
pub(super) mod outcomes;
mod pulled_again;
mod pulls;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::images::uses::{Uses, by_id};
use super::pods::{Pods, list_sanity};
use super::policy::Policy;
use crate::model::{
    Absence, ImageMemory, ListCounts, ListFall, LogDir, Memory, NamedImages, Pod, PodUid, RecentCounts, RuntimeMemory,
    Seen, Snapshot,
};
use crate::rules::Rule;

/// The time of an unchanged list of pods is written again after this long. That saves writes to the store, and the plan
/// still shows the age of the list to within minutes.
const REFRESH: Duration = Duration::from_mins(5);

/// Returns the memory after this snapshot.
pub fn update_memory(snapshot: &Snapshot, policy: &Policy) -> Memory {
    let before = &snapshot.memory;
    let (lists, pods) = (lists(snapshot, policy), Pods::new(snapshot, policy));
    let listed_at = snapshot.pods_listed_at.unwrap_or(snapshot.taken_at);
    Memory {
        agent_started_at: before.agent_started_at,
        images: images(snapshot, policy),
        images_at: Some(snapshot.taken_at).filter(|_| lists_images(snapshot)).or(before.images_at),
        absent_since: absent_since(snapshot, &pods, listed_at),
        failures: before.failures.clone(),
        last_counts: lists.last,
        recent_counts: lists.recent,
        baseline_lost: list_sanity::baseline_loss(snapshot, &policy.guards),
        fall: lists.fall,
        runtime: runtime(snapshot),
        named_images: named_images(snapshot),
        log_pods: remember(snapshot, policy),
        disks: disk_growth::remember(snapshot),
        removed_images: pulled_again::removed_images(snapshot),
        pulling_since: pulls::pulling_since(snapshot),
        pulls: pulls::remember(snapshot, policy),
        orphaned_since: orphaned_since(snapshot, &pods, listed_at),
        image_volumes: Arc::clone(snapshot.image_volumes.as_ref().unwrap_or(&before.image_volumes)),
    }
}

/// What is known about the lengths of the runtime's lists.
struct Lists {
    last: Option<ListCounts>,
    recent: Option<RecentCounts>,
    fall: Option<ListFall>,
}

/// Returns the baseline for a sharp fall, and the fall if there is one that is not trusted yet.
fn lists(snapshot: &Snapshot, policy: &Policy) -> Lists {
    let (last, recent) = (snapshot.memory.last_counts, snapshot.memory.recent_counts);
    if last.is_none() && snapshot.containers.as_ref().is_none() {
        return Lists { last, recent, fall: None };
    }
    if let Some(fall) = list_sanity::fall(snapshot, &policy.guards) {
        return Lists { last: Some(fall.baseline), recent, fall: Some(fall.level) };
    }
    let (last, recent) = list_sanity::trusted(snapshot, &policy.guards);
    Lists { last: Some(last), recent: Some(recent), fall: None }
}

/// Returns what the runtime reports about itself now, or what it reported before if it does not answer.
fn runtime(snapshot: &Snapshot) -> Option<RuntimeMemory> {
    let before = snapshot.memory.runtime.as_ref();
    let Seen::Seen(listening_since) = snapshot.listening_since else { return before.cloned() };
    let first_seen = before.filter(|before| before.listening_since == listening_since).map(|before| before.first_seen);
    let sandbox_image = snapshot.sandbox_image().map(|name| name.map(str::to_owned));
    Some(RuntimeMemory { listening_since, first_seen: first_seen.unwrap_or(snapshot.taken_at), sandbox_image })
}

/// Returns the pods of this list if it is complete, else those of the last complete list.
fn named_images(snapshot: &Snapshot) -> Option<NamedImages> {
    let before = snapshot.memory.named_images.as_ref();
    let Some(list) = snapshot.pods.as_ref().filter(|list| list.complete) else { return before.cloned() };
    let pods = without_details(&list.pods);
    let is_recent = |known: &&NamedImages| super::times::age(snapshot.taken_at, known.as_of) < REFRESH;
    match before.filter(is_recent).filter(|known| *known.pods == *pods) {
        Some(known) => Some(known.clone()),
        None => Some(NamedImages { as_of: snapshot.taken_at, pods: Arc::new(pods.into_owned()) }),
    }
}

/// The memory needs the images of pods, and not what their authors wrote.
fn without_details(pods: &[Pod]) -> Cow<'_, [Pod]> {
    let strip = |pod: &Pod| Pod { details: None, ..pod.clone() };
    if pods.iter().all(|pod| pod.details.is_none()) { pods.into() } else { pods.iter().map(strip).collect() }
}

fn lists_images(snapshot: &Snapshot) -> bool {
    snapshot.images.as_ref().is_some() && snapshot.containers.as_ref().is_some()
}

fn images(snapshot: &Snapshot, policy: &Policy) -> Arc<[ImageMemory]> {
    let (Some(images), Some(containers)) = (snapshot.images.as_ref(), snapshot.containers.as_ref()) else {
        return Arc::clone(&snapshot.memory.images);
    };
    let known: HashMap<_, _> = snapshot.memory.images.iter().map(|image| (&image.id, image)).collect();
    let uses = Uses::new(containers, &policy.guards);
    let now = snapshot.taken_at;
    by_id(images, &policy.guards)
        .into_values()
        .map(|image| {
            let past = known.get(&image.id);
            let user = uses.of(&image).map(|used| used.container().full_name());
            let (used, by) = snapshot.memory.last_use_of(&image, past.copied());
            ImageMemory {
                id: image.id,
                first_seen: past.map_or(Some(now), |past| past.first_seen),
                last_used: if user.is_some() { Some(now) } else { used },
                last_used_by: user.or_else(|| by.map(str::to_owned)),
            }
        })
        .collect()
}

/// Returns the pods that have only a directory of the kubelet, and since when. A snapshot that does not show them changes nothing.
fn orphaned_since(snapshot: &Snapshot, pods: &Pods, now: Timestamp) -> BTreeMap<PodUid, Timestamp> {
    let before = &snapshot.memory.orphaned_since;
    let is_complete = snapshot.pods.as_ref().is_some_and(|list| list.complete) && pods.why_untrusted().is_none();
    let Some(dirs) = snapshot.pod_dirs.as_ref().filter(|_| is_complete) else { return before.clone() };
    let orphans = dirs.iter().filter(|uid| pods.of_directory(uid).is_some());
    orphans.map(|uid| (uid.clone(), before.get(uid).map_or(now, |since| now.min(*since)))).collect()
}

fn absent_since(snapshot: &Snapshot, pods: &Pods, now: Timestamp) -> Arc<[Absence]> {
    let known: HashMap<_, _> = snapshot.memory.absent_since.iter().map(|past| (&past.uid, past.since)).collect();
    uids(snapshot)
        .into_iter()
        .filter_map(|uid| {
            let past = known.get(&uid).copied();
            let since = match pods.is_missing(&uid) {
                // A later time comes from a clock that was set back since.
                Some(true) => Some(past.map_or(now, |since| now.min(since))),
                Some(false) => None,
                None => past,
            }?;
            Some(Absence { uid, since })
        })
        .collect()
}

/// Returns every pod with an object on the node, and the pods of the memory if one of the lists is unavailable.
fn uids(snapshot: &Snapshot) -> BTreeSet<PodUid> {
    let Snapshot { containers, sandboxes, log_dirs, .. } = snapshot;
    let all_seen = containers.is_seen() && sandboxes.is_seen() && log_dirs.is_seen();
    let before = snapshot.memory.absent_since.iter().filter(|_| !all_seen).map(|past| past.uid.clone());
    let containers = snapshot.listed_containers().into_iter().flatten().map(|container| container.pod_uid());
    let sandboxes = snapshot.listed_sandboxes().into_iter().flatten().map(|sandbox| sandbox.pod_uid());
    let dirs = snapshot.log_dirs.as_ref().into_iter().flatten().map(LogDir::pod_uid);
    containers.chain(sandboxes).map(|uid| uid.cloned().unwrap_or_default()).chain(dirs).chain(before).collect()
}

/// The most deleted pods. More log directories of that many deleted pods are rare, and the memory is copied for each change.
const MOST_DELETED: usize = 1_000;

/// Returns the listed pods, and the deleted ones that have a log directory, each as it was last seen.
fn remember(snapshot: &Snapshot, policy: &Policy) -> Arc<Vec<Pod>> {
    let before = &snapshot.memory.log_pods;
    if !policy.rules.iter().any(Rule::asks_pods_of_logs) {
        return Arc::default();
    }
    let mut pods: BTreeMap<&PodUid, Pod> = before.iter().map(|pod| (&pod.uid, pod.clone())).collect();
    let listed = snapshot.pods.as_ref().map(|list| &list.pods[..]).unwrap_or_default();
    let mut exist = HashSet::new();
    for pod in listed {
        exist.insert(&pod.uid);
        let known = pods.remove(&pod.uid).filter(|known| known.identity() == pod.identity());
        // Not every pass reads the details.
        let details = pod.details.clone().or_else(|| known.and_then(|known| known.details));
        pods.insert(&pod.uid, Pod { details, images: Vec::new(), ..pod.clone() });
    }
    if let Seen::Seen(dirs) = &snapshot.log_dirs {
        let has_logs: HashSet<PodUid> = dirs.iter().map(LogDir::pod_uid).collect();
        pods.retain(|uid, _| exist.contains(uid) || has_logs.contains(uid));
    }
    let mut left = MOST_DELETED;
    pods.retain(|uid, _| exist.contains(uid) || left.checked_sub(1).map(|rest| left = rest).is_some());
    let pods: Vec<_> = pods.into_values().collect();
    if pods == **before { Arc::clone(before) } else { Arc::new(pods) }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::plan::tests::node::{ago, node, now};

    fn known_runtime(listening_since: i64) -> RuntimeMemory {
        RuntimeMemory {
            listening_since: Some(ago(listening_since)),
            first_seen: ago(5),
            sandbox_image: Seen::default(),
        }
    }

    /// The settle time counts from this moment when the socket is older, as with socket activation.
    #[test]
    fn a_runtime_is_first_seen_until_it_restarts() {
        let first_seen = |before: i64| {
            let snapshot = node().but(|snapshot| {
                snapshot.listening_since = Seen::Seen(Some(ago(9)));
                snapshot.memory.runtime = Some(known_runtime(before));
            });
            runtime(&snapshot.snapshot()).map(|runtime| runtime.first_seen)
        };
        assert_eq!([first_seen(9), first_seen(30)], [Some(ago(5)), Some(now())]);
    }

    #[test]
    fn remembered_pods_count_only_while_a_list_is_unavailable() {
        let past: Absence = serde_json::from_value(json!({ "uid": "past", "since": ago(60) })).unwrap();
        let known = |hide: fn(&mut Snapshot)| {
            let web = node().pod("web").exited("web/app", "c", 9).but(|snapshot| {
                snapshot.memory.absent_since = [past.clone()].into();
                hide(snapshot);
            });
            uids(&web.snapshot()).into_iter().map(|uid| uid.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(known(|_| {}), ["web"]);
        assert_eq!(known(|node| node.containers = Seen::default()), ["past"]);
        assert_eq!(known(|node| node.sandboxes = Seen::default()), ["past", "web"]);
        assert_eq!(known(|node| node.log_dirs = Seen::default()), ["past", "web"]);
    }

    /// The lists before that of the pods may take long.
    #[test]
    fn an_absence_begins_when_the_pods_are_listed() {
        let listed_at = now() + SignedDuration::from_secs(40);
        let node = node().sandbox("web", "s", 9).but(|snapshot| {
            snapshot.pod_dirs = Seen::Seen(vec!["old".into()]);
            snapshot.pods_listed_at = Some(listed_at);
            snapshot.memory.orphaned_since = [("old".into(), listed_at + SignedDuration::from_secs(9))].into();
        });
        let memory = update_memory(&node.snapshot(), &Policy::default());
        assert_eq!(memory.absent_since.iter().map(|absence| absence.since).collect::<Vec<_>>(), [listed_at]);
        assert_eq!(memory.orphaned_since.into_values().collect::<Vec<_>>(), [listed_at], "a clock was set back");
    }

    /// Passes overlap, and the memory is that of the latest one.
    #[test]
    fn a_pass_without_statuses_keeps_the_known_mounts() {
        let known = Arc::new([("c1".into(), vec!["sha256:aa".to_owned()])].into());
        let mut snapshot = node().snapshot();
        snapshot.memory.image_volumes = Arc::clone(&known);
        assert_eq!(update_memory(&snapshot, &Policy::default()).image_volumes, known);
        snapshot.image_volumes = Some(Arc::default());
        assert!(update_memory(&snapshot, &Policy::default()).image_volumes.is_empty(), "the container was deleted");
    }
}
