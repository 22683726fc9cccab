//! Which images are removed when some share layers, and the estimates.

use crate::model::{HolderKind, Image, Seen, Snapshot};
use crate::plan::document::action::{Kind, Target};
use crate::plan::policy::Policy;
use crate::plan::policy::pressure::Pressure;
use crate::plan::tests::node::{MIB, Node, Row, hold, node};

fn table<const ROWS: usize>(rows: [Row; ROWS]) {
    hold(&[Kind::Image], rows);
}

/// A disk of 1000 MiB that is 90 % full, so that 100 MiB are to be reclaimed, with unused images, least recently used first.
fn full(images: &[(&str, &[(&str, u64)])]) -> Node {
    let mut node = node().disk_of(1000 * MIB, 100 * MIB);
    for (age, (image, layers)) in (0..).zip(images) {
        node = node.image(image, 300).used(200 - age).which(|image| image.size_bytes = 70 * MIB).layers(image, layers);
    }
    node
}

#[test]
#[rustfmt::skip]
fn an_image_is_removed_only_if_that_reclaims_something() {
    let used = |image: &str| format!("docker.io/library/{image}:1");
    let pinned = |image: &mut Image| image.pinned = true;
    let unknown = |snapshot: &mut Snapshot| {
        store(snapshot).parts[0].bytes = None;
        store(snapshot).missing_sizes.push("sizes of 1 of 2 snapshots: refused".to_owned());
    };
    let not_whole = |snapshot: &mut Snapshot| store(snapshot).missing.push("leases: refused".to_owned());
    let lacks_a = |snapshot: &mut Snapshot| drop(store(snapshot).holders.remove(0));
    table([
        ("each has its own layers", full(&[("a", &[("a", 60)]), ("b", &[("b", 60)]), ("c", &[("c", 60)])]),
            "c: target_reached", "a b: space"),
        ("two of one layer, which is reclaimed with the last of them",
            full(&[("a", &[("x", 200)]), ("b", &[("x", 200)]), ("c", &[("c", 150)])]),
            "c: target_reached", "a b: space"),
        ("an image between them is enough",
            full(&[("a", &[("x", 200)]), ("b", &[("b", 150)]), ("c", &[("x", 200)])]),
            "a c: target_reached", "b: space"),
        ("the last of a set of three completes it",
            full(&[("a", &[("x", 90)]), ("b", &[("x", 90), ("y", 50)]), ("c", &[("x", 90), ("y", 50)])]),
            "", "a b c: space"),
        ("a set that is complete when another holder is removed",
            full(&[("a", &[("x", 90)]), ("b", &[("x", 90)]), ("c", &[("x", 90), ("c", 30)])]), "", "c a b: space"),
        ("one that waits is not of every set", 
            full(&[("a", &[("x", 90), ("z", 9)]), ("b", &[("x", 90)]), ("d", &[("w", 99)]), ("e", &[("w", 99), ("z", 9)])]),
            "", "a b e d: space"),
        ("one that was removed waits no more",
            full(&[("a", &[("x", 50), ("y", 99)]), ("b", &[("x", 50), ("b", 30)]), ("d", &[("y", 99)]), ("f", &[("f", 5)])])
                .image("k", 300).which(pinned).layers("k", &[("y", 99)]),
            "d: frees_nothing, k: pinned", "b a f: space"),
        ("a kept image holds the layer too",
            full(&[("a", &[("x", 200)]), ("b", &[("x", 200)])]).image("k", 300).which(pinned).layers("k", &[("x", 200)]),
            "a b: frees_nothing, k: pinned", ""),
        ("a lease holds the layer", full(&[("a", &[("x", 200)])]).held(HolderKind::Lease, "k8s.io", "lease", None, &["x"]),
            "a: frees_nothing", ""),
        ("a container of another namespace holds the layer",
            full(&[("a", &[("x", 200)])]).held(HolderKind::Container, "moby", "c1", Some(used("z")), &["x"]),
            "a: frees_nothing", ""),
        ("less than a manifest is nothing", full(&[("a", &[("empty", 0)]), ("b", &[("b", 200)])]), "a: frees_nothing", "b: space"),
        ("a size is not known: the runtime's size counts",
            full(&[("a", &[("x", 200)]), ("b", &[("x", 200)]), ("c", &[("c", 9)])]).but(unknown), "c: target_reached", "a b: space"),
        ("only the images of that size are without an estimate",
            full(&[("a", &[("x", 200)]), ("b", &[("b", 20)]), ("c", &[("c", 90)])]).but(unknown), "", "a b c: space"),
        ("the store is not whole: the runtime's sizes count",
            full(&[("a", &[("x", 200)]), ("b", &[("x", 200)]), ("c", &[("c", 9)])]).but(not_whole), "c: target_reached", "a b: space"),
        ("the store does not have the image: the runtime's size counts",
            full(&[("a", &[("a", 1)]), ("b", &[("b", 40)]), ("c", &[("c", 9)])]).but(lacks_a), "c: target_reached", "a b: space"),
        ("the kubelet adds up the runtime's sizes",
            full(&[("a", &[("x", 200)]), ("b", &[("b", 1)]), ("c", &[("x", 200)])]).kubelet(), "c: target_reached", "a b: space"),
    ]);
}

#[test]
fn an_estimate_is_what_the_removal_reclaims_after_those_before() {
    let plan = full(&[("a", &[("x", 80)]), ("b", &[("x", 80), ("b", 20)]), ("c", &[("c", 5)])]).plan();
    let estimates = |actions: &[crate::plan::document::action::Action]| -> Vec<(String, u64)> {
        let of = |target: &Target| match target {
            Target::RemoveImage { id, estimated_bytes, .. } => (id.to_string(), *estimated_bytes / MIB),
            other => panic!("{other:?}"),
        };
        actions.iter().map(|action| of(&action.target)).collect()
    };
    // The layer that both hold goes with the second; before that, the first reclaims nothing.
    assert_eq!(estimates(&plan.actions), [("b".to_owned(), 20), ("a".to_owned(), 80)]);
    assert_eq!(estimates(&plan.images.reserve), [("c".to_owned(), 5)]);
    assert!(plan.images.together.is_empty(), "{:?}", plan.images.together);
}

/// Removed and kept images are compared in one table.
#[test]
fn every_image_has_its_size_on_the_disk() {
    let plan = full(&[("a", &[("x", 80)]), ("b", &[("x", 80), ("b", 20)]), ("c", &[("c", 5)])]).plan();
    let sizes = plan.actions.iter().map(|action| action.size).chain(plan.kept.iter().map(|kept| kept.size));
    let sizes: Vec<_> = sizes.map(|size| (size.reported, size.on_disk, size.known())).collect();
    let size = |on_disk: u64| (Some(70 * MIB), Some(on_disk * MIB), Some(on_disk * MIB));
    assert_eq!(sizes, [size(100), size(80), size(5)]);
}

#[test]
fn sets_are_shown() {
    let plan = full(&[("a", &[("x", 90)]), ("b", &[("x", 90)]), ("c", &[("c", 5)])]).plan();
    assert_eq!(plan.images.together, [["a".into(), "b".into()]]);
    assert_eq!(plan.images.shortfall_bytes, 5 * MIB);
}

fn store(snapshot: &mut Snapshot) -> &mut crate::model::RuntimeStore {
    match &mut snapshot.store {
        Seen::Seen(store) => store,
        other => panic!("{other:?}"),
    }
}

#[test]
#[rustfmt::skip]
fn where_space_is_needed_leases_on_removed_images_go_first() {
    let lease = |node: Node, name: &str, layer: (&str, u64)| {
        node.layers("removed", &[layer]).held(HolderKind::Lease, "k8s.io", name, None, &[layer.0])
    };
    let one = || full(&[("a", &[("a", 60)]), ("b", &[("b", 60)])]);
    let total = |policy: &mut Policy| {
        (policy.images.high_threshold_percent, policy.images.targets) = (100, vec!["total 90MiB..70MiB".parse().unwrap()]);
    };
    let requested = |policy: &mut Policy| *policy = policy.under_pressure(Pressure::Requested {});
    hold(&[Kind::Image, Kind::Leftover], [
        ("one that is enough", lease(one(), "kubegc-undo-1", ("y", 150)), "a b: target_reached", "kubegc-undo-1: space"),
        ("no more than needed", lease(lease(one(), "kubegc-undo-2", ("z", 150)), "kubegc-undo-1", ("y", 150)),
            "a b: target_reached", "kubegc-undo-1: space"),
        ("one that is not enough", lease(one(), "kubegc-undo-1", ("y", 50)), "b: target_reached", "kubegc-undo-1 a: space"),
        ("its layer is that of an image too", lease(one(), "kubegc-undo-1", ("a", 60)), "", "kubegc-undo-1 a b: space"),
        ("a lease of another client", lease(one(), "pull-1", ("y", 150)), "", "a b: space"),
        ("a total of images has none", lease(one(), "kubegc-undo-1", ("y", 150)).set(total), "b: target_reached", "a: target"),
        ("all of them, if a flag requests it", lease(one(), "kubegc-undo-1", ("y", 150)).set(requested), "", "kubegc-undo-1 a b: unused"),
    ]);
}
