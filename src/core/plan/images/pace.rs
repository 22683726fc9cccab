//! How much one pass over images does: a gentle pace for disks that have time.
//!
//! The images beyond the pace are kept. Above the emergency mark, and under disk pressure, the pace does not apply: the disk has
//! no time then. `execute` makes the pauses; the schedule delays the first pass.

use std::collections::HashMap;

use crate::model::{FileSystem, ImageId};
use crate::plan::document::action::{Action, Kind};
use crate::plan::document::reason::KeepReason;
use crate::plan::policy::image_policy::Pace;
use crate::plan::policy::pressure::PressurePolicy;
use crate::plan::step::Step;

/// The emergency mark: below 5 % of free space or inodes a full disk is near, and nothing waits. The kubelet evicts pods below
/// 15 % of the image disk by default (1.36, `imagefs.available`).
const EMERGENCY: PressurePolicy = PressurePolicy { free_bytes: 0, free_percent: 5, free_inodes_percent: 5 };

/// Returns whether a disk is so full that no pace applies.
pub fn is_emergency(disk: &FileSystem) -> bool {
    EMERGENCY.judge(disk).is_some()
}

/// Keeps the images of the plan that are beyond the pace. Images that reclaim something only together stay together, and the
/// first go in any case: otherwise a large image would stay forever. A saved plan has been limited before it was saved.
pub(super) fn limit(step: &mut Step) {
    let context = step.context;
    let pace = context.policy.images.pace;
    let is_emergency = context.snapshot.image_filesystem.as_ref().is_some_and(is_emergency);
    if pace == Pace::default() || is_emergency || context.policy.pass.pressure.is_some() || step.is_of_saved_plan() {
        return;
    }
    step.plan.images.pace = Some(pace);
    let mut spent = Spent::default();
    let images: Vec<_> = step.plan.actions.extract_if(.., |action| action.target.kind() == Kind::Image).collect();
    for set in sets(&images, &step.plan.images.together) {
        if spent.allows(&set, pace) {
            step.plan.actions.extend(set);
        } else {
            step.plan.images.beyond_pace += set.len() as u64;
            for Action { target, pod, age_seconds, size, .. } in set {
                let reason = KeepReason::BeyondPace { images: pace.images, bytes: pace.bytes };
                step.keep(target.with(pod, age_seconds, size).keep(reason));
            }
        }
    }
    step.plan.images.reserve.retain(|action| spent.allows(std::slice::from_ref(action), pace));
}

/// Groups the removals by the images that go together. Those follow each other in the plan.
fn sets(actions: &[Action], together: &[Vec<ImageId>]) -> Vec<Vec<Action>> {
    let numbered = together.iter().enumerate().flat_map(|(set, ids)| ids.iter().map(move |id| (id.to_string(), set)));
    let set_of: HashMap<String, usize> = numbered.collect();
    let of = |action: &Action| set_of.get(&action.target.id());
    let is_together = |one: &Action, next: &Action| of(one).is_some() && of(one) == of(next);
    actions.chunk_by(is_together).map(<[Action]>::to_vec).collect()
}

// === impl Spent ===

/// What the removals so far have spent of the pace.
#[derive(Default)]
struct Spent {
    images: u64,
    bytes: u64,
    is_over: bool,
}

impl Spent {
    /// Adds a set if it is within the pace. After one that is not, none is: the order stays that of last use.
    fn allows(&mut self, set: &[Action], pace: Pace) -> bool {
        let images = self.images + set.len() as u64;
        let bytes = set.iter().filter_map(Action::bytes).fold(self.bytes, u64::saturating_add);
        let is_within = pace.images.is_none_or(|most| images <= most) && pace.bytes.is_none_or(|most| bytes <= most);
        self.is_over |= self.images > 0 && !is_within;
        if !self.is_over {
            (self.images, self.bytes) = (images, bytes);
        }
        !self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::node::{MIB, Node, Row, hold, node};

    /// Six unused images of 100 MiB, of which four must go.
    fn six(available_mib: u64) -> Node {
        let size = |image: &mut crate::model::Image| image.size_bytes = 100 * MIB;
        let images = (0..).zip(["a", "b", "c", "d", "e", "f"]);
        images.fold(node().disk_of(2000 * MIB, available_mib * MIB), |node, (age, image)| {
            node.image(image, 300).used(200 - age).which(size)
        })
    }

    fn pace(images: Option<u64>, mib: Option<u64>) -> impl Fn(&mut crate::plan::policy::Policy) {
        let pace = Pace { images, bytes: mib.map(|mib| mib * MIB), ..Pace::default() };
        move |policy| policy.images.pace = pace
    }

    #[test]
    #[rustfmt::skip]
    fn a_pass_stops_at_the_pace() {
        let pair = || node().disk_of(2000 * MIB, 150 * MIB)
            .image("a", 300).used(200).layers("a", &[("x", 200)]).image("b", 300).used(199).layers("b", &[("x", 200)])
            .image("c", 300).used(198).layers("c", &[("c", 90)]);
        let pressed = |policy: &mut crate::plan::policy::Policy| {
            pace(Some(1), None)(policy);
            policy.pass.pressure = Some(crate::plan::policy::pressure::Pressure::Requested {});
        };
        hold(&[Kind::Image], [
            ("no pace", six(110), "d e f: target_reached", "a b c: space") as Row,
            ("two images", six(110).set(pace(Some(2), None)), "c: beyond_pace, d e f: target_reached", "a b: space"),
            ("250 MiB", six(110).set(pace(None, Some(250))), "c: beyond_pace, d e f: target_reached", "a b: space"),
            ("less than the first image", six(110).set(pace(None, Some(1))), "b c: beyond_pace, d e f: target_reached", "a: space"),
            ("more than is needed", six(110).set(pace(Some(9), None)), "d e f: target_reached", "a b c: space"),
            ("a pair counts as one removal", pair().set(pace(Some(1), None)), "c: beyond_pace", "a b: space"),
            ("above the emergency mark", six(99).set(pace(Some(1), None)), "e f: target_reached", "a b c d: space"),
            ("everything unused is requested", six(999).set(pressed), "", "a b c d e f: unused"),
        ]);
    }

    #[test]
    fn the_reserve_is_part_of_the_pace() {
        let reserve = |most| six(110).set(pace(Some(most), None)).plan().images.reserve.len();
        assert_eq!([3, 4, 9].map(reserve), [0, 1, 3]);
        let limited = six(110).set(pace(Some(2), None)).plan().images;
        assert_eq!((limited.beyond_pace, limited.reserve.len()), (1, 0));
    }
}
