//! What the rules decide of an image under each of its names, and its rank in its repository by the time of its build.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::object_facts::repositories_of;
use crate::model::{Image, ImageDetails, ImageId, Seen, Snapshot};
use crate::rules::{Limits, Rule, Then};

/// The rule that decides an image, for each of its repositories; `None` = the settings decide. None of them keeps it.
#[derive(Default)]
pub struct ImageRules<'a>(Vec<Option<&'a Rule>>);

// === impl ImageRules ===

impl<'a> ImageRules<'a> {
    pub fn new(rules: Vec<Option<&'a Rule>>) -> Self {
        Self(rules)
    }

    /// Returns the rule that removes the image: under every name one does.
    pub fn removing(&self) -> Option<&'a Rule> {
        let removes = |rule: Option<&Rule>| rule.is_some_and(|rule| rule.text().then == Then::Remove);
        self.0.iter().all(|rule| removes(*rule)).then(|| self.0.first().copied().flatten())?
    }

    /// Returns whether a list may remove the image: no rule decides otherwise under one of its names.
    pub fn permit_lists(&self) -> bool {
        self.0.iter().flatten().all(|rule| rule.text().then == Then::Remove)
    }

    /// Returns the limit that keeps the image longest, and the rule that sets it; `None` = the settings do. Where a rule does not
    /// set the limit, that of the settings applies.
    pub fn longest(
        &self,
        setting: Duration,
        limit: impl Fn(&Limits) -> Option<Duration>,
        length: impl Fn(Duration) -> Duration,
    ) -> (Option<&'a Rule>, Duration) {
        let of_rule = |rule: Option<&'a Rule>| {
            let set = rule.and_then(|rule| Some((rule, limit(rule.limits()?)?)));
            set.map_or((None, setting), |(rule, limit)| (Some(rule), limit))
        };
        self.0.iter().copied().map(of_rule).max_by_key(|(_, limit)| length(*limit)).unwrap_or((None, setting))
    }
}

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
