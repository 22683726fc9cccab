//! What fills the disks, as of the last account.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::definitions::*;
use super::registry::{Labels, OwnedLabels, Values, number};
use crate::model::{DirUsage, LeftoverKind};
use crate::plan::DiskState;
use crate::store::{CategoryEntry, DiskAccount, NamespaceSpace, Space};

/// The namespaces with series of their own: their names are those of tenants, and could be any number.
const NAMESPACES: usize = 20;
/// The longest name of a namespace in Kubernetes. A longer one is none.
const LONGEST: usize = 63;

/// Shows the categories of the image file system, and what is missing, and how long the space lasts, without all removable images.
pub(super) fn show(values: &Values, account: &DiskAccount, disks: &[DiskState]) {
    let shortfall = disks.iter().find_map(|disk| disk.shortfall_bytes(account.reclaimable_bytes));
    values.replace(SHORTFALL, "", shortfall.map(|bytes| (Labels::new(), number(bytes))));
    let after = disks.iter().filter_map(|disk| {
        let left = disk.eviction_after_collection(account.reclaimable_bytes)?;
        let labels = vec![("filesystem", disk.disk.name()?.into()), ("limit", "eviction_after_collection")];
        Some((labels, number(left.seconds)))
    });
    values.replace(FS_TIME_LEFT, "account", after);
    let of = |value: fn(&CategoryEntry) -> u64| {
        let label = |entry: &CategoryEntry| -> Labels { vec![("category", entry.category.into())] };
        account.first.categories.iter().map(move |entry| (label(entry), number(value(entry))))
    };
    values.replace(IMAGE_DISK, "", of(|entry| entry.bytes));
    values.replace(IMAGE_DISK_INODES, "", of(|entry| entry.inodes));
}

/// Shows the largest namespaces, which come first, and the sum of the others without a name.
pub(super) fn show_namespaces(values: &Values, namespaces: &[NamespaceSpace]) {
    let (named, mut rest) =
        namespaces.iter().partition::<Vec<_>, _>(|one| (1..=LONGEST).contains(&one.namespace.len()));
    rest.extend(named.iter().skip(NAMESPACES));
    let rest = rest.into_iter().fold(Space::default(), |sum, one| sum.and(one.space));
    let shown = named.iter().take(NAMESPACES).map(|one| (one.namespace.as_str(), one.space));
    values.replace(NAMESPACE, "", shown.chain([("", rest)]).flat_map(|(name, space)| samples(name, space)));
}

fn samples(namespace: &str, space: Space) -> [(OwnedLabels, f64); 4] {
    let parts = [
        ("writable_layers", space.writable_layer_bytes.unwrap_or_default()),
        ("volumes", space.volume_bytes),
        ("logs", space.log_bytes),
        ("other", space.other_bytes),
    ];
    let labels = |what| vec![("pod_namespace", namespace.to_owned().into()), ("what", Cow::Borrowed(what))];
    parts.map(|(what, bytes)| (labels(what), number(bytes)))
}

/// Shows what is left over.
pub(super) fn show_leftovers(values: &Values, leftovers: &BTreeMap<LeftoverKind, (u64, DirUsage)>) {
    let of = |value: fn(&(u64, DirUsage)) -> u64| {
        let label = |kind: &LeftoverKind| -> Labels { vec![("kind", kind.into())] };
        leftovers.iter().map(move |(kind, found)| (label(kind), number(value(found))))
    };
    values.replace(LEFTOVERS, "", of(|(count, _)| *count));
    values.replace(LEFTOVERS_BYTES, "", of(|(_, usage)| usage.bytes));
}
