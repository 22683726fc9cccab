//! Which removed images the runtime has again.
//!
//! An image is pulled again if its id, or the digest of its manifest, is in the runtime after its removal. A name is no evidence,
//! because another image may have taken it. What is back while its content is kept for `kubegc undo` is restored: no layer was pulled.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::model::{ImageId, RemovedImage, RemovedImages, Snapshot, manifest_digests};

/// Returns the removed images that are remembered. The first list that has one again marks it, once.
pub(super) fn removed_images(snapshot: &Snapshot) -> RemovedImages {
    let now = snapshot.taken_at;
    let mut removed = snapshot.memory.removed_images.clone();
    removed.retain(|_, image| image.is_remembered(now));
    for id in returned(snapshot, &removed) {
        if let Some(image) = removed.get_mut(&id) {
            let image = Arc::make_mut(image);
            *if image.was_kept(now) { &mut image.restored_at } else { &mut image.pulled_again_at } = Some(now);
        }
    }
    removed
}

/// Returns the removed images that the list has, and that no list had before.
fn returned(snapshot: &Snapshot, removed: &RemovedImages) -> Vec<ImageId> {
    // Passes overlap: a list from before the removal still has the image.
    let is_away = |image: &RemovedImage| image.back_at().is_none() && image.at < snapshot.taken_at;
    let away = || removed.iter().filter(|(_, image)| is_away(image));
    if away().next().is_none() {
        return Vec::new();
    }
    let by_digest: HashMap<_, _> =
        away().flat_map(|(id, image)| image.digests.iter().map(move |digest| (digest.as_str(), id))).collect();
    let images = snapshot.images.as_ref().into_iter().flatten();
    let known: HashSet<_> = snapshot.memory.images.iter().map(|image| &image.id).collect();
    let found = images.flat_map(|image| {
        let of_id = removed.get_key_value(&image.id);
        let is_new = of_id.is_none() && !known.contains(&image.id);
        let of_digest = manifest_digests(&image.digests).filter_map(|digest| by_digest.get(digest).copied());
        let of_id = of_id.filter(|(_, image)| is_away(image)).map(|(id, _)| id);
        of_id.into_iter().chain(of_digest.filter(move |_| is_new))
    });
    found.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Image, Seen};
    use crate::plan::policy::Policy;
    use crate::plan::tests::node::{Node, ago, node, now};
    use crate::plan::update_memory;

    const A_DAY: i64 = 24 * 60;
    const FORGOTTEN: &str = "forgotten";

    /// A node with a removal of an image so many minutes ago.
    fn removed(minutes: i64) -> Node {
        let removed =
            RemovedImage { at: ago(minutes), digests: vec!["sha256:01".to_owned()], ..RemovedImage::default() };
        node().but(|snapshot| _ = snapshot.memory.removed_images.insert("removed".into(), Arc::new(removed)))
    }

    /// Adds an image that no pass has seen before.
    fn with_new(node: Node, id: &str, names: &[&str]) -> Node {
        let digests = names.iter().filter(|name| name.contains('@')).map(ToString::to_string).collect();
        let tags = names.iter().filter(|name| !name.contains('@')).map(ToString::to_string).collect();
        node.but(|snapshot| {
            let Seen::Seen(images) = &mut snapshot.images else { return };
            images.push(Image { id: id.into(), tags, digests, ..Image::default() });
        })
    }

    /// Returns when the image was pulled again, or that the removal is forgotten.
    fn pulled_again_at(node: Node) -> Result<Option<jiff::Timestamp>, &'static str> {
        let memory = update_memory(&node.snapshot(), &Policy::default());
        memory.removed_images.get(&"removed".into()).map(|image| image.pulled_again_at).ok_or(FORGOTTEN)
    }

    #[test]
    fn an_image_is_pulled_again_by_its_id_or_digest_alone() {
        let with = |id, names: &[&str]| pulled_again_at(with_new(removed(60), id, names)).unwrap();
        assert_eq!(with("removed", &[]), Some(now()));
        assert_eq!(with("other", &["r.example/another/name@sha256:01"]), Some(now()));
        assert_eq!(with("other", &["r.example/app:1", "r.example/app@sha256:012"]), None, "another digest");
        assert_eq!(with("other", &["r.example/app:1"]), None, "another image has its tag");
        assert_eq!(with("other", &["r.example/app@sha256:0"]), None, "a part of the digest");
        assert_eq!(with("other", &["r.example/sha256:01"]), None, "no digest");
        let known = removed(60).image("known", 300).which(|image| image.digests = vec!["r@sha256:01".to_owned()]);
        assert_eq!(pulled_again_at(known), Ok(None), "it was there before the removal");
        let unavailable = removed(60).but(|snapshot| snapshot.images = Seen::NotSeen("no answer".to_owned()));
        assert_eq!(pulled_again_at(unavailable), Ok(None));
    }

    #[test]
    fn an_image_that_is_back_was_first_seen_now_and_used_before() {
        let node = with_new(removed(60), "removed", &[]).but(|snapshot| {
            let image = Arc::make_mut(snapshot.memory.removed_images.values_mut().next().unwrap());
            (image.last_used, image.last_used_by) = (Some(ago(90)), Some("shop/web/app".to_owned()));
        });
        let memory = &update_memory(&node.snapshot(), &Policy::default()).images[0];
        assert_eq!((memory.first_seen, memory.last_used), (Some(now()), Some(ago(90))));
        assert_eq!(memory.last_used_by.as_deref(), Some("shop/web/app"));
    }

    /// Passes overlap, so a list may be from before the removal.
    #[test]
    fn a_list_from_before_the_removal_shows_no_pull() {
        assert_eq!(pulled_again_at(removed(-5).image("removed", 300)), Ok(None));
        assert_eq!(pulled_again_at(removed(0).image("removed", 300)), Ok(None));
        assert_eq!(pulled_again_at(removed(-61).image("removed", 300)), Err(FORGOTTEN), "the clock was set back");
    }

    #[test]
    fn what_is_back_while_its_content_is_kept_is_no_pull() {
        let back = |kept: i64| {
            let node = removed(60).image("removed", 9).but(|snapshot| {
                let image = snapshot.memory.removed_images.values_mut().next().unwrap();
                Arc::make_mut(image).kept_until = Some(ago(-kept));
            });
            let memory = update_memory(&node.snapshot(), &Policy::default());
            let image = &memory.removed_images[&"removed".into()];
            (image.restored_at, image.pulled_again_at, memory.pulls.len())
        };
        assert_eq!(back(1), (Some(now()), None, 0));
        assert_eq!((back(-1).0, back(-1).1), (None, Some(now())), "the lease had ended");
    }

    #[test]
    fn a_removal_is_marked_once_and_forgotten_in_time() {
        let marked = |minutes, age: i64| {
            removed(minutes).image("removed", 9).but(|snapshot| {
                let image = snapshot.memory.removed_images.values_mut().next().unwrap();
                Arc::make_mut(image).pulled_again_at = Some(ago(age));
            })
        };
        assert_eq!(pulled_again_at(marked(60, 9)), Ok(Some(ago(9))), "the first sight stays");
        assert_eq!(pulled_again_at(removed(14 * A_DAY - 1)), Ok(None));
        assert_eq!(
            pulled_again_at(removed(14 * A_DAY).image("removed", 1)),
            Err(FORGOTTEN),
            "after 14 days it is a new image"
        );
        assert_eq!(pulled_again_at(marked(60 * A_DAY - 1, 9)), Ok(Some(ago(9))));
        assert_eq!(pulled_again_at(marked(60 * A_DAY, 9)), Err(FORGOTTEN));
    }
}
