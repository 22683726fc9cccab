//! Where the removal of images begins and ends: targets besides the thresholds, and disk pressure.

use std::time::Duration;

use super::*;
use crate::model::Snapshot;
use crate::plan::document::ImageTrigger;
use crate::plan::document::action::Kind;
use crate::plan::policy::Policy;
use crate::plan::policy::pressure::PressurePolicy;
use crate::plan::tests::node::{MIB, Node, Row, ago, hold, node, now};

fn table<const ROWS: usize>(rows: [Row; ROWS]) {
    hold(&[Kind::Image], rows);
}

/// Three unused images of 100 MiB and 100 inodes each on a disk of 1000 MiB and 1000 inodes, of which so much is free. The
/// thresholds are off.
fn three(free_mib: u64, inodes_free: u64) -> Node {
    let inodes = move |snapshot: &mut Snapshot| {
        let crate::model::Seen::Seen(disk) = &mut snapshot.image_filesystem else { panic!("no disk") };
        (disk.inodes, disk.inodes_free) = (Some(1000), Some(inodes_free));
        disk.mountpoint = "/images".into();
    };
    let mut node = node().disk_of(1000 * MIB, free_mib * MIB).but(inodes);
    for (name, used) in [("a", 30), ("b", 20), ("c", 10)] {
        node = node.image(name, 300).used(used).which(|image| image.size_bytes = 40 * MIB).layers(name, &[(name, 100)]);
    }
    let hundred = |snapshot: &mut Snapshot| {
        let crate::model::Seen::Seen(store) = &mut snapshot.store else { panic!("no store") };
        store.parts.iter_mut().for_each(|part| part.inodes = Some(100));
    };
    node.but(hundred).set(|policy| policy.images.high_threshold_percent = 100)
}

fn target(target: ImageTarget) -> impl Fn(&mut Policy) {
    move |policy| policy.images.targets.push(target)
}

fn free(below: u64, until: u64) -> impl Fn(&mut Policy) {
    target(ImageTarget::Free { below_bytes: below * MIB, until_bytes: until * MIB })
}

fn inodes(from_percent: u64, until_percent: u64) -> impl Fn(&mut Policy) {
    target(ImageTarget::Inodes { from_percent, until_percent })
}

fn total(above: u64, until: u64) -> impl Fn(&mut Policy) {
    target(ImageTarget::Total { above_bytes: above * MIB, until_bytes: until * MIB })
}

#[test]
#[rustfmt::skip]
fn a_target_begins_at_its_limit_and_ends_at_the_other() {
    let no_inodes = |snapshot: &mut Snapshot| if let crate::model::Seen::Seen(disk) = &mut snapshot.image_filesystem { disk.inodes = None };
    let no_store = |snapshot: &mut Snapshot| snapshot.store = crate::model::Seen::NotRead;
    let unknown_inodes = |snapshot: &mut Snapshot| {
        let crate::model::Seen::Seen(store) = &mut snapshot.store else { panic!("no store") };
        store.parts[0].inodes = None;
    };
    let all = "a b c: target";
    table([
        ("enough is free", three(100, 500).set(free(100, 300)), "a b c: below_threshold", ""),
        ("a byte less than enough is free", three(99, 500).set(free(100, 199)), "b c: target_reached", "a: target"),
        ("one image is not enough", three(99, 500).set(free(100, 200)), "c: target_reached", "a b: target"),
        ("all are not enough", three(99, 500).set(free(100, 900)), "", all),
        ("fewer inodes are used", three(500, 110).set(inodes(90, 80)), "a b c: below_threshold", ""),
        ("so many inodes are used, rounded up", three(500, 109).set(inodes(90, 80)), "b c: target_reached", "a: target"),
        ("the disk does not count inodes", three(500, 0).set(inodes(90, 80)).but(no_inodes), "a b c: below_threshold", ""),
        ("the inodes of an image are not known", three(500, 10).set(inodes(90, 80)).but(unknown_inodes), "b c: target_reached", "a: target"),
        ("no inodes are known without the store", three(500, 10).set(inodes(90, 80)).but(no_store), "b c: target_reached", "a: target"),
        ("the images have as much as they may", three(500, 500).set(total(300, 100)), "a b c: below_threshold", ""),
        ("the images have more", three(500, 500).set(total(299, 250)), "b c: target_reached", "a: target"),
        ("without the store the runtime's sizes count", three(500, 500).set(total(119, 90)).but(no_store),
            "b c: target_reached", "a: target"),
        ("of two targets that have begun, both are reached", three(99, 100).set(free(100, 150)).set(inodes(90, 71)),
            "c: target_reached", "a b: target"),
        ("one that has not begun has no effect", three(99, 500).set(free(100, 150)).set(total(900, 1)),
            "b c: target_reached", "a: target"),
    ]);
}

#[test]
fn the_plan_names_the_target_that_has_begun() {
    let plan = three(99, 100).set(free(100, 150)).set(inodes(90, 80)).plan();
    assert_eq!(plan.images.triggered_by, Some(ImageTrigger::FreeBytes));
    assert_eq!(plan.actions[0].reason.explain().phrase, "99.0MiB free (images.targets: free 100MiB..150MiB)");
    assert_eq!((plan.images.target_bytes, plan.images.target_inodes), (51 * MIB, 100));
    assert_eq!((plan.images.stop_at_available_bytes, plan.images.stop_at_free_inodes), (150 * MIB, 200));
    let phrase = |node: Node| node.plan().actions[0].reason.explain().phrase;
    assert_eq!(phrase(three(500, 50).set(inodes(90, 80))), "95% of inodes used (images.targets: inodes 90%..80%)");
    assert_eq!(
        phrase(three(500, 500).set(total(200, 100))),
        "300.0MiB of images (images.targets: total 200MiB..100MiB)"
    );
}

/// The disk says nothing about a total: others write to it meanwhile, and an undo keeps the bytes of removed images there.
#[test]
fn a_total_of_all_images_is_not_measured_on_the_disk() {
    let measured = |node: Node| {
        let plan = node.plan();
        (plan.needs_space(), plan.images.reserve.len())
    };
    assert_eq!(measured(three(500, 500).set(total(299, 250))), (false, 0));
    assert_eq!(measured(three(99, 500).set(free(100, 199))), (true, 2));
    assert_eq!(measured(three(99, 500).set(total(299, 250)).set(free(100, 199))), (true, 2), "beside another target");
}

/// The disk may be half empty when a target begins.
#[test]
fn a_target_that_is_missed_is_named_instead_of_the_disk() {
    let plan = three(500, 500).which(|image| image.pinned = true).set(total(200, 50)).plan();
    let target = "300.0MiB of images (images.targets: total 200MiB..50MiB)";
    assert_eq!(plan.images.began_by.as_deref(), Some(target));
    let expected = format!("{target}: 250.0MiB must be freed, and all removable images have 200.0MiB");
    assert_eq!(plan.errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

/// The disk has 1000 MiB, and the low threshold is 80%.
#[test]
#[rustfmt::skip]
fn a_target_that_the_disk_cannot_meet_ends_at_the_low_threshold() {
    table([
        ("a bit more than one image is missing", three(99, 500).set(free(100, 2000)), "c: target_reached", "a b: target"),
        ("the low threshold is reached", three(500, 500).set(free(600, 2000)), "a b c: below_threshold", ""),
    ]);
    let errors = |node: Node| node.plan().errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(errors(three(500, 500).set(free(600, 2000))), [
        "cannot meet images.targets \"free 600MiB..2000MiB\": the image disk has 1000.0MiB; removal ends at images.low_threshold_percent"
    ]);
    assert!(errors(three(700, 500).set(free(600, 2000))).is_empty(), "it has not begun");
    assert!(errors(three(500, 500).set(free(600, 700))).is_empty());
}

/// Returns the node with pressure on a disk.
fn pressed(node: Node, mountpoint: &str, limits: PressurePolicy) -> Node {
    let pressure = Pressure::FreeBytes { mountpoint: mountpoint.into(), free_bytes: 1, limit_bytes: 2 };
    node.set(move |policy| {
        policy.pressure = limits;
        policy.pass.pressure = Some(pressure);
    })
}

#[test]
#[rustfmt::skip]
fn disk_pressure_ends_with_a_tenth_to_spare() {
    let limits = |free_mib: u64, free_percent, free_inodes_percent| PressurePolicy { free_bytes: free_mib * MIB, free_percent, free_inodes_percent };
    let requested = |node: Node| node.set(|policy| policy.pass.pressure = Some(Pressure::Requested {}));
    table([
        ("bytes", pressed(three(99, 500), "/images", limits(100, 0, 0)), "b c: target_reached", "a: unused"),
        ("a tenth more than one image", pressed(three(20, 500), "/images", limits(110, 0, 0)),
            "c: target_reached", "a b: unused"),
        ("percent", pressed(three(49, 500), "/images", limits(0, 15, 0)), "c: target_reached", "a b: unused"),
        ("inodes", pressed(three(500, 10), "/images", limits(0, 0, 10)), "b c: target_reached", "a: unused"),
        ("images on another disk reclaim nothing there", pressed(three(99, 500), "/logs", limits(100, 0, 0)),
            "a b c: below_threshold", ""),
        ("a flag requests everything", requested(three(500, 500)), "", "a b c: unused"),
    ]);
}

#[test]
fn each_setting_alone_may_remove_images() {
    let disk = FileSystem { capacity_bytes: 1000 * MIB, available_bytes: 500 * MIB, ..FileSystem::default() };
    let may_remove = |set: fn(&mut Policy)| {
        let mut policy = Policy::default();
        set(&mut policy);
        may_remove_images(&policy, &disk, 0, Some(ago(10)), now())
    };
    let causes: [fn(&mut Policy); 4] = [
        |policy| policy.images.all_unused = true,
        |policy| policy.pass.listed = [("listed".to_owned(), Vec::new())].into(),
        |policy| policy.images.max_age = Duration::from_mins(9),
        |policy| free(501, 600)(policy),
    ];
    assert_eq!(causes.map(may_remove), [true; 4]);
    let none: [fn(&mut Policy); 3] =
        [|_| {}, |policy| policy.images.max_age = Duration::from_mins(10), |policy| free(500, 600)(policy)];
    assert_eq!(none.map(may_remove), [false; 3]);
}
