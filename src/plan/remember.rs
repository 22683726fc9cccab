//! What a pass teaches: the memory after it, as data.
//!
//! An unknown image is first seen now, and one in use was last used now. Images that are gone are forgotten. A pod is
//! absent since the first of an unbroken row of looks that did not find it; a look that could not tell changes nothing.

use std::collections::{BTreeSet, HashMap};

use super::image_use::Uses;
use super::pods::Pods;
use super::{Policy, names};
use crate::model::{Absence, ImageMemory, ListCounts, Memory, PodUid, Snapshot};

/// The memory after this snapshot.
pub fn remember(snapshot: &Snapshot, policy: &Policy) -> Memory {
    let before = &snapshot.memory;
    Memory {
        agent_started_at: before.agent_started_at,
        images: images(snapshot, policy),
        absent_since: absent_since(snapshot, policy),
        failures: before.failures.clone(),
        last_counts: counts(snapshot).or(before.last_counts),
    }
}

fn images(snapshot: &Snapshot, policy: &Policy) -> Vec<ImageMemory> {
    let (Some(images), Some(containers)) = (snapshot.images.as_ref(), snapshot.containers.as_ref()) else {
        return snapshot.memory.images.clone();
    };
    let known: HashMap<_, _> = snapshot.memory.images.iter().map(|image| (&image.id, image)).collect();
    let uses = Uses::new(containers, &policy.guards);
    let now = snapshot.taken_at;
    let mut memory: Vec<_> = images
        .iter()
        .map(|image| {
            let past = known.get(&image.id);
            let used_now = uses.of(image).is_some();
            ImageMemory {
                id: image.id.clone(),
                first_seen: past.map_or(Some(now), |past| past.first_seen),
                last_used: if used_now { Some(now) } else { past.and_then(|past| past.last_used) },
            }
        })
        .collect();
    memory.sort_by(|a, b| a.id.cmp(&b.id));
    memory.dedup_by(|a, b| a.id == b.id);
    memory
}

fn absent_since(snapshot: &Snapshot, policy: &Policy) -> Vec<Absence> {
    let pods = Pods::new(snapshot, policy);
    let known: HashMap<_, _> = snapshot.memory.absent_since.iter().map(|past| (&past.uid, past.since)).collect();
    uids(snapshot)
        .into_iter()
        .filter_map(|uid| {
            let past = known.get(&uid).copied();
            let since = match pods.is_absent(&uid) {
                // One in the future was seen by a clock that was set back since.
                Some(true) => past.filter(|since| *since <= snapshot.taken_at).or(Some(snapshot.taken_at)),
                Some(false) => None,
                None => past,
            }?;
            Some(Absence { uid, since })
        })
        .collect()
}

/// Every pod of which the node shows something, and those known before where a list of it was not seen.
fn uids(snapshot: &Snapshot) -> BTreeSet<PodUid> {
    let Snapshot { containers, sandboxes, log_dirs, .. } = snapshot;
    let all_seen = containers.as_ref().is_some() && sandboxes.as_ref().is_some() && log_dirs.as_ref().is_some();
    let before = snapshot.memory.absent_since.iter().filter(|_| !all_seen).map(|past| past.uid.clone());
    let containers = snapshot.listed_containers().into_iter().flatten().map(|container| container.pod_uid());
    let sandboxes = snapshot.listed_sandboxes().into_iter().flatten().map(|sandbox| sandbox.pod_uid());
    let dirs = snapshot.log_dirs.as_ref().into_iter().flatten().map(|dir| names::pod_uid_of_dir(&dir.name));
    containers.chain(sandboxes).map(|uid| uid.cloned().unwrap_or_default()).chain(dirs).chain(before).collect()
}

fn counts(snapshot: &Snapshot) -> Option<ListCounts> {
    let containers = snapshot.containers.as_ref()?.len() as u64;
    Some(ListCounts { containers, sandboxes: snapshot.sandboxes.as_ref()?.len() as u64 })
}
