//! The ages and the sizes of objects, for display. No decision depends on them.

use std::collections::HashMap;

use jiff::Timestamp;

use super::instances::known;
use super::{Kind, Plan, Policy};
use crate::model::Snapshot;

/// Since when the age of an object counts, and its size.
#[derive(Clone, Copy, Default)]
struct Facts {
    since: Option<Timestamp>,
    bytes: Option<u64>,
}

/// Adds the age and the size to each kept object, and the size of its logs to each removal.
pub fn add(plan: &mut Plan, snapshot: &Snapshot, policy: &Policy) {
    let facts = all(snapshot, policy);
    let of = |kind: Kind, id: &str| facts.get(&(kind, id.to_owned())).copied().unwrap_or_default();
    for kept in &mut plan.kept {
        let Facts { since, bytes } = of(kept.kind, &kept.id);
        kept.age_seconds = since.map(|at| snapshot.taken_at.duration_since(at).as_secs());
        kept.size_bytes = bytes;
    }
    for action in plan.actions.iter_mut().filter(|action| action.target.kind() != Kind::Image) {
        action.size_bytes = of(action.target.kind(), &action.target.id()).bytes;
    }
}

fn all(snapshot: &Snapshot, policy: &Policy) -> HashMap<(Kind, String), Facts> {
    let containers = snapshot.listed_containers().into_iter().flatten().map(|one| {
        let facts = Facts { since: known(policy.containers.age_from.of(one)), bytes: one.log_bytes };
        ((Kind::Container, one.id.to_string()), facts)
    });
    let sandboxes = snapshot.listed_sandboxes().into_iter().flatten();
    let sandboxes =
        sandboxes.map(|one| ((Kind::Sandbox, one.id.to_string()), Facts { since: known(one.created_at), bytes: None }));
    let dirs = snapshot.log_dirs.as_ref().into_iter().flatten().map(|dir| {
        let path = policy.logs.pods_root.join(&dir.name).display().to_string();
        ((Kind::LogDir, path), Facts { since: dir.modified_at, bytes: dir.size_bytes })
    });
    containers.chain(sandboxes).chain(dirs).chain(images(snapshot)).collect()
}

fn images(snapshot: &Snapshot) -> impl Iterator<Item = ((Kind, String), Facts)> {
    let past = snapshot.memory.images.iter().map(|past| (&past.id, past.first_seen));
    let past: HashMap<_, _> = past.collect();
    let images = snapshot.images.as_ref().into_iter().flatten();
    images.map(move |image| {
        let since = past.get(&image.id).copied().flatten();
        ((Kind::Image, image.id.to_string()), Facts { since, bytes: Some(image.size_bytes) })
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::AgeFrom;
    use crate::plan::tests::node::{ago, node};

    #[test]
    fn the_age_counts_from_where_the_rule_counts_it() {
        for (age_from, to_go) in [(AgeFrom::Created, None), (AgeFrom::Finished, Some(240))] {
            let node = node().pod("web").exited("web/app", "a", 30);
            let node = node.whose(|container| container.finished_at = Some(ago(1))).set(|policy| {
                (policy.containers.min_age, policy.containers.age_from) = (Duration::from_mins(5), age_from);
            });
            let (mut plan, snapshot, policy) = node.planned();
            add(&mut plan, &snapshot, &policy);
            assert_eq!(plan.kept[0].seconds_to_go(plan.taken_at), to_go, "{age_from:?}");
        }
    }
}
