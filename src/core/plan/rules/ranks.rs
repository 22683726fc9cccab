//! The rank of each image within its repository, by the time of its build.

use std::collections::HashMap;

use jiff::Timestamp;

use super::object_facts::repositories_of;
use crate::model::{Image, ImageDetails, ImageId, Seen, Snapshot};

/// Before this, a time of a build is a placeholder: builds that are to be reproducible write 1970 or 1980.
const FIRST_YEAR: i16 = 1981;

/// The rank of each image that has one.
pub(in crate::plan) struct Ranks<'a>(HashMap<&'a ImageId, u64>);

/// Returns when an image was built; `None` = its configuration has no time, or a placeholder. A time in the future does
/// not count: it would be the newest for ever.
pub(in crate::plan) fn build_time(details: &ImageDetails, now: Timestamp) -> Option<Timestamp> {
    details.created_at.filter(|at| *at <= now && at.to_zoned(jiff::tz::TimeZone::UTC).year() >= FIRST_YEAR)
}

// === impl Ranks ===

impl<'a> Ranks<'a> {
    /// Ranks all images. An image that several repositories name has its best rank in them. Images of one time share a rank, so
    /// that a rule treats them alike. Images whose configuration has no time share the last rank. One whose configuration was not
    /// read has no rank and does not count, so that the ranks of the others are at most their true ones.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let mut repositories = HashMap::<String, Vec<(&ImageId, Option<Timestamp>)>>::new();
        for image in snapshot.images.as_ref().into_iter().flatten() {
            let Some(details) = snapshot.image_details.get(&image.id).and_then(Seen::as_ref) else { continue };
            let built = build_time(details, snapshot.taken_at);
            for repository in repositories_of(image) {
                repositories.entry(repository).or_default().push((&image.id, built));
            }
        }
        let mut ranks = HashMap::<&ImageId, u64>::new();
        for (id, rank) in repositories.values().flat_map(|images| ranked(images)) {
            ranks.entry(id).and_modify(|best| *best = rank.min(*best)).or_insert(rank);
        }
        Self(ranks)
    }

    /// Returns the rank of an image, from 1; `None` = not known.
    pub fn of(&self, image: &Image) -> Option<u64> {
        self.0.get(&image.id).copied()
    }
}

/// Returns the rank of each image of a repository. Images without a time come after all others.
fn ranked<'a>(images: &[(&'a ImageId, Option<Timestamp>)]) -> Vec<(&'a ImageId, u64)> {
    let mut times: Vec<_> = images.iter().map(|(_, built)| *built).collect();
    times.sort_unstable(); // `None` first
    let newer = |built| times.len() - times.partition_point(|other| *other <= built);
    images.iter().map(|(id, built)| (*id, 1 + newer(*built) as u64)).collect()
}
