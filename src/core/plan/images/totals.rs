//! Rules that limit the bytes of the images that they decide. Above its limit, a rule removes unused images until its end, in the order
//! of images.
//!
//! Used images count too. A layer of images of several rules counts for the first of them, once, so that the sum of the rules is what
//! is on the disk. An image of which rules decide only some names, or several, counts and is not removed.

use std::collections::{HashMap, HashSet};

use super::candidate::Candidate;
use super::reclaim::{Estimates, Held, Order};
use crate::model::{Image, ImageId, exact_range_text};
use crate::plan::document::ImageTrigger;
use crate::plan::document::action::Target;
use crate::plan::step::{Context, Step};
use crate::rules::{ImageTotal, Rule};

/// A rule with a limit, and what its images hold.
struct Budget<'a> {
    place: usize,
    rule: &'a Rule,
    total: ImageTotal,
    /// What counts for the rule: its bytes, and how many of its images hold it.
    held: HashMap<Held, (u64, u32)>,
    /// What each of its images holds of that.
    images: HashMap<ImageId, Vec<Held>>,
    bytes: u64,
    /// The images of which it decides every name.
    removable: HashSet<ImageId>,
}

/// Removes images of the rules that are over their limits. Returns the other candidates, in their order.
pub(super) fn remove_over<'i>(
    step: &mut Step,
    estimates: &mut Estimates,
    candidates: Vec<Candidate<'i>>,
) -> Vec<Candidate<'i>> {
    let budgets = budgets(step, estimates);
    if budgets.is_empty() {
        return candidates;
    }
    let places: HashMap<_, _> = candidates.iter().map(|it| it.image.id.clone()).zip(0..).collect();
    let mut rest = candidates;
    for mut budget in budgets {
        step.context.rules.note_total(budget.place, budget.bytes);
        if budget.bytes <= budget.total.above_bytes {
            continue;
        }
        let reason = budget.rule.removes(None);
        let is_free = |it: &mut Candidate| {
            budget.removable.contains(&it.image.id)
                && !it.is_held(step.context, &reason)
                && it.why_kept(step.context).is_none()
        };
        let free = rest.extract_if(.., is_free).collect();
        let mut order = Order::new(std::mem::take(estimates), free);
        budget.remove(step, &mut order);
        let left;
        (left, *estimates) = order.into_rest();
        rest.extend(left);
        rest.sort_by_key(|it| places.get(&it.image.id));
    }
    rest
}

fn budgets<'a>(step: &Step<'_, 'a>, estimates: &Estimates) -> Vec<Budget<'a>> {
    let context = step.context;
    let new = |(place, rule, total)| {
        let (held, images, bytes, removable) = Default::default();
        Budget { place, rule, total, held, images, bytes, removable }
    };
    let mut budgets: Vec<_> = context.rules.totals().map(new).collect();
    if budgets.is_empty() {
        return budgets;
    }
    let removed: HashSet<_> = step.plan.actions.iter().filter_map(|action| image_of(&action.target)).collect();
    let listed = context.snapshot.images.as_ref().into_iter().flatten();
    let images: Vec<_> = listed.filter(|image| !removed.contains(&image.id)).collect();
    let places: Vec<_> = images.iter().map(|image| places_of(context, image)).collect();
    let mut counted = HashSet::new();
    for budget in &mut budgets {
        let place = budget.place;
        let of_rule = images.iter().zip(&places).filter(|(_, places)| first(places, context) == Some(place));
        for (image, places) in of_rule {
            budget.add(image, estimates, &counted);
            if places.iter().all(|of_name| *of_name == Some(place)) {
                budget.removable.insert(image.id.clone());
            }
        }
        counted.extend(budget.held.keys().cloned());
    }
    budgets
}

fn image_of(target: &Target) -> Option<&ImageId> {
    match target {
        Target::RemoveImage { id, .. } => Some(id),
        _ => None,
    }
}

fn places_of(context: &Context, image: &Image) -> Vec<Option<usize>> {
    context.rules.places_of(image, context.memory_of(image))
}

/// Returns the first rule with a limit that decides a name of an image.
fn first(places: &[Option<usize>], context: &Context) -> Option<usize> {
    context.rules.totals().map(|(place, ..)| place).find(|place| places.contains(&Some(*place)))
}

// === impl Budget ===

impl Budget<'_> {
    /// Counts what an image holds, unless it counts for a rule before.
    fn add(&mut self, image: &Image, estimates: &Estimates, counted: &HashSet<Held>) {
        let held = estimates.held(image).into_iter().filter(|(held, _)| !counted.contains(held));
        for (held, bytes) in held {
            let (_, holders) = self.held.entry(held.clone()).or_insert_with(|| {
                self.bytes = self.bytes.saturating_add(bytes);
                (bytes, 0)
            });
            *holders += 1;
            self.images.entry(image.id.clone()).or_default().push(held);
        }
    }

    fn subtract(&mut self, image: &ImageId) {
        for held in self.images.remove(image).unwrap_or_default() {
            let Some((bytes, holders)) = self.held.get_mut(&held) else { continue };
            *holders -= 1;
            if *holders == 0 {
                self.bytes = self.bytes.saturating_sub(*bytes);
            }
        }
    }

    /// Removes images until the end of the limit.
    fn remove(&mut self, step: &mut Step, order: &mut Order) {
        let limit = format!("total = {}", exact_range_text(self.total.above_bytes, self.total.until_bytes));
        while self.bytes > self.total.until_bytes {
            let Some(set) = order.next() else { return };
            if set.len() > 1 {
                step.plan.images.together.push(set.iter().map(|(candidate, _)| candidate.image.id.clone()).collect());
            }
            for (candidate, reclaimed) in set {
                step.plan.images.triggered_by = Some(ImageTrigger::Rule);
                self.subtract(&candidate.image.id);
                step.remove(candidate.action(step.context, reclaimed.bytes, self.rule.removes(limit.clone())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::model::{RemovedImage, Seen, Snapshot};
    use crate::plan::document::action::Kind;
    use crate::plan::policy::Policy;
    use crate::plan::tests::node::{MIB, Node, ago, hold, node};
    use crate::rules::{Limits, RuleSubject, RuleText, Then};

    /// A rule that limits the images whose ids match to so many MiB.
    fn rule(name: &str, when: &str, above: u64, until: u64) -> Rule {
        let total = Some(ImageTotal { above_bytes: above * MIB, until_bytes: until * MIB });
        let (then, note, resource) =
            (Then::Limits(Limits { total, ..Limits::default() }), String::new(), String::new());
        let (name, when) = (name.to_owned(), when.to_owned());
        Rule::compile(RuleText { name, subject: RuleSubject::Image, resource, when, then, until: None, note }).unwrap()
    }

    fn rules<const RULES: usize>(rules: [Rule; RULES]) -> impl FnOnce(&mut Policy) {
        move |policy| policy.rules = rules.into_iter().collect()
    }

    /// Images `a1`, `a2`, … on a disk with enough space, the least recently used first.
    fn images(images: &[(&str, &[(&str, u64)])]) -> Node {
        let mut node = node().disk_of(1000 * MIB, 900 * MIB);
        for (age, (image, layers)) in (0..).zip(images) {
            let named =
                |it: &mut Image| (it.size_bytes, it.tags) = (70 * MIB, vec![format!("docker.io/library/{image}:1")]);
            node = node.image(image, 300).used(200 - age).which(named).layers(image, layers);
        }
        node
    }

    fn three() -> Node {
        images(&[("a1", &[("a1", 40)]), ("a2", &[("a2", 40)]), ("a3", &[("a3", 40)])])
    }

    #[test]
    #[rustfmt::skip]
    fn a_rule_removes_images_above_its_limit_until_its_end() {
        let of_a = "image.id.startsWith('a')";
        let pinned = |image: &mut Image| image.pinned = true;
        let young = |snapshot: &mut Snapshot| Arc::make_mut(&mut snapshot.memory.images)[0].first_seen = Some(snapshot.taken_at);
        let no_store = |snapshot: &mut Snapshot| snapshot.store = crate::model::Seen::NotRead;
        let removed = |id: &'static str, rule: &str, pulled_again_at| {
            let (reason, rule) = ("rule".to_owned(), Some(rule.to_owned()));
            let last_used = Some(ago(198));
            let image = RemovedImage { at: ago(190), reason, rule, unused_seconds: 9_000, last_used, pulled_again_at, ..RemovedImage::default() };
            move |snapshot: &mut Snapshot| _ = snapshot.memory.removed_images.insert(id.into(), Arc::new(image.clone()))
        };
        let is_other = |image: &&crate::model::ImageMemory| image.id != "a3".into();
        let forgotten = |snapshot: &mut Snapshot| {
            snapshot.memory.images = snapshot.memory.images.iter().filter(is_other).cloned().collect();
        };
        let at_once = |policy: &mut Policy| policy.images.min_age = Duration::ZERO;
        let two_names = |image: &mut Image| image.tags.push("docker.io/library/b:1".to_owned());
        let shared = || images(&[("a1", &[("x", 60)]), ("a2", &[("x", 60), ("a2", 20)]), ("b1", &[("x", 60), ("b1", 9)])]);
        hold(&[Kind::Image], [
            ("within its limit", three().set(rules([rule("r", of_a, 120, 50)])), "a1 a2 a3: below_threshold", ""),
            ("above it", three().set(rules([rule("r", of_a, 119, 50)])), "a3: below_threshold", "a1 a2: rule"),
            ("the end is 0", three().set(rules([rule("r", of_a, 119, 0)])), "", "a1 a2 a3: rule"),
            ("other images do not count", three().set(rules([rule("r", "image.id != 'a3'", 80, 50)])), "a1 a2 a3: below_threshold", ""),
            ("a kept image counts", three().image("a4", 300).which(pinned).layers("a4", &[("a4", 60)]).set(rules([rule("r", of_a, 170, 100)])),
                "a3: below_threshold, a4: pinned", "a1 a2: rule"),
            ("a young image stays", three().but(young).set(rules([rule("r", of_a, 119, 50)])), "a1: below_threshold", "a2 a3: rule"),
            ("an image that is back was last used before its removal",
                three().but(forgotten).but(removed("a3", "other", None)).set(rules([rule("r", of_a, 119, 50)])).set(at_once), "a3: below_threshold", "a1 a2: rule"),
            ("an image that is back soon after its removal by the rule", three().but(removed("a1", "r", Some(ago(185)))).set(rules([rule("r", of_a, 119, 50)])),
                "a1: pulled_again", "a2 a3: rule"),
            ("without the store the sizes of the runtime count", three().but(no_store).set(rules([rule("r", of_a, 209, 140)])),
                "a2 a3: below_threshold", "a1: rule"),
            ("a layer of two images counts once, and is removed with the last", shared().set(rules([rule("r", of_a, 79, 70)])),
                "a1 b1: below_threshold", "a2: rule"),
            ("a layer that another image holds: what is reclaimed is not enough",
                shared().set(rules([rule("r", of_a, 79, 0)])), "a1 b1: below_threshold", "a2: rule"),
            ("the first rule counts the layer, and the other does not", shared().set(rules([rule("b", "image.id == 'b1'", 100, 0), rule("a", of_a, 20, 0)])),
                "a1 a2 b1: below_threshold", ""),
            ("what counts for a rule is over its limit", shared().set(rules([rule("b", "image.id == 'b1'", 100, 0), rule("a", of_a, 19, 0)])),
                "a1 b1: below_threshold", "a2: rule"),
            ("an image of which the rule does not decide every name", three().which(two_names).set(rules([rule("r", "image.repository.contains('/a')", 100, 0)])),
                "a3: below_threshold", "a1 a2: rule"),
        ]);
    }

    #[test]
    fn the_plan_says_what_the_images_of_a_rule_have() {
        let limited = three().set(rules([rule("r", "image.id != 'a1'", 300, 1), rule("s", "true", 300, 1)]));
        let notes = limited.plan().rules;
        assert_eq!(notes.iter().map(|note| note.total_bytes).collect::<Vec<_>>(), [Some(80 * MIB), Some(40 * MIB)]);
        let Seen::Seen(images) = limited.snapshot().images else { panic!("no images") };
        assert_eq!(images.len(), 3);
    }
}
