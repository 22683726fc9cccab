//! What a pass sees of pulls: images that the pass before did not have, and how long the kubelet was pulling them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::model::{Image, Pulls, RepositoryPulls, Snapshot};
use crate::plan::images::uses::by_id;
use crate::plan::policy::Policy;
use crate::plan::rules::object_facts::repositories_of;

/// The most repositories of one image that count, the first by name.
const MOST_OF_IMAGE: usize = 8;
/// The most pulls in progress that are remembered. A kubelet has fewer.
const MOST_PULLING: usize = 256;

/// Returns the pulls in progress, and since when.
pub(super) fn pulling_since(snapshot: &Snapshot) -> BTreeMap<String, Timestamp> {
    snapshot.pulling_since.iter().take(MOST_PULLING).map(|(name, since)| (name.clone(), *since)).collect()
}

/// Returns the pulls of each repository, with those of the images that are new in this list.
pub(super) fn remember(snapshot: &Snapshot, policy: &Policy) -> Arc<Pulls> {
    let (before, now) = (&snapshot.memory, snapshot.taken_at);
    let known: HashSet<_> = before.images.iter().map(|image| &image.id).collect();
    // Passes overlap: a list from before a removal still has the image.
    let is_pulled = |image: &Image| {
        let removed = || before.removed_images.get(&image.id);
        !known.contains(&image.id) && !removed().is_some_and(|removed| removed.at >= now || removed.was_kept(now))
    };
    let Some(images) = snapshot.images.as_ref() else { return Arc::clone(&before.pulls) };
    // Without a memory every image is new.
    if known.is_empty() || images.iter().all(|image| !is_pulled(image)) {
        return Arc::clone(&before.pulls);
    }
    let mut pulls = Pulls::clone(&before.pulls);
    for image in by_id(images, &policy.guards).values().filter(|image| is_pulled(image)) {
        let took = seconds(snapshot, image);
        for repository in repositories_of(image).into_iter().take(MOST_OF_IMAGE) {
            note(&mut pulls, repository, took, now);
        }
    }
    Arc::new(pulls)
}

/// Returns how long the kubelet was pulling an image; `None` = no pass saw that.
fn seconds(snapshot: &Snapshot, image: &Image) -> Option<u64> {
    let pulling = snapshot.memory.pulling_since.iter().chain(&snapshot.pulling_since);
    let since = pulling.filter(|(name, _)| image.is_named(name)).map(|(_, since)| *since).min()?;
    Some(u64::try_from(snapshot.taken_at.duration_since(since).as_secs()).unwrap_or_default().max(1))
}

fn note(pulls: &mut Pulls, repository: String, seconds: Option<u64>, now: Timestamp) {
    if repository.len() > RepositoryPulls::LONGEST_NAME {
        return;
    }
    if !pulls.contains_key(&repository) && pulls.len() >= RepositoryPulls::MOST {
        let oldest = pulls.iter().min_by_key(|(_, known)| known.last).map(|(name, _)| name.clone());
        oldest.map(|name| pulls.remove(&name));
    }
    let known = pulls.entry(repository).or_insert(RepositoryPulls { pulls: 0, seconds: None, last: now });
    *known = RepositoryPulls { pulls: known.pulls + 1, seconds: seconds.or(known.seconds), last: now };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Image, RemovedImage, Seen};
    use crate::plan::tests::node::{Node, ago, node, now};

    const REPOSITORY: &str = "docker.io/library/app";

    /// A node with an image that a pass has seen, and one that is new.
    fn pulled(name: &str) -> Node {
        node().image("known", 300).but(|snapshot| {
            let Seen::Seen(images) = &mut snapshot.images else { return };
            images.push(Image { id: "new".into(), tags: vec![name.to_owned()], ..Image::default() });
        })
    }

    fn pulls(node: Node) -> Vec<(String, u64, Option<u64>)> {
        let pulls = remember(&node.snapshot(), &Policy::default());
        pulls.iter().map(|(name, of)| (name.clone(), of.pulls, of.seconds)).collect()
    }

    fn known(name: &str, minutes: i64) -> (String, RepositoryPulls) {
        (name.to_owned(), RepositoryPulls { pulls: 2, seconds: Some(7), last: ago(minutes) })
    }

    #[test]
    fn an_image_that_is_new_in_a_list_is_a_pull() {
        let once = |seconds| vec![(REPOSITORY.to_owned(), 1, seconds)];
        assert_eq!(pulls(pulled("app:1")), once(None));
        let seen = |name: &str, since| {
            pulled("app:1").but(|node| _ = node.memory.pulling_since.insert(name.to_owned(), since))
        };
        assert_eq!(pulls(seen("app:1", ago(2))), once(Some(120)), "as the pod names it");
        assert_eq!(pulls(seen("app:2", ago(2))), once(None), "the pull of another image");
        assert_eq!(pulls(seen("app:1", now())), once(Some(1)), "at least a second");
        assert_eq!(pulls(seen("app:1", ago(-2))), once(Some(1)), "the clock was set back");
        let first = pulled("app:1").but(|node| node.memory.images = [].into());
        assert_eq!(pulls(first), [], "in the first pass each image is new");
        let overlapping = pulled("app:1").but(|node| {
            let removed = RemovedImage { at: ago(-1), ..RemovedImage::default() };
            node.memory.removed_images.insert("new".into(), Arc::new(removed));
        });
        assert_eq!(pulls(overlapping), [], "a list from before the removal");
        let again = pulled("app:1").but(|node| node.memory.pulls = Arc::new([known(REPOSITORY, 9)].into()));
        assert_eq!(pulls(again), [(REPOSITORY.to_owned(), 3, Some(7))], "the last time that is known stays");
    }

    #[test]
    fn a_tenant_cannot_fill_the_memory_with_repositories() {
        let many = || (0..RepositoryPulls::MOST).map(|n| known(&format!("r/{n}"), i64::try_from(n).unwrap()));
        let full = pulled("app:1").but(|node| node.memory.pulls = Arc::new(many().collect()));
        let after = pulls(full);
        assert_eq!(after.len(), RepositoryPulls::MOST);
        let has = |name: &str| after.iter().any(|(known, ..)| known == name);
        assert_eq!([has(REPOSITORY), has("r/999"), has("r/998")], [true, false, true], "the oldest leaves");
        assert_eq!(pulls(pulled(&format!("r.example/{}:1", "x".repeat(300)))), []);
        let names: Vec<_> = (0..20).map(|n| format!("r.example/{n}:1")).collect();
        let all = pulled("app:1").which(|image| image.tags = names);
        assert_eq!(pulls(all).len(), MOST_OF_IMAGE);
    }
}
