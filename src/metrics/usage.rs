//! How full the file systems are, and at which usage kubegc responds.

use super::definitions::*;
use super::registry::{Labels, Values, number};
use crate::model::FileSystem;
use crate::plan::{Policy, PressurePolicy};

/// What a file system holds: the value of the label `filesystem`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum UsageOf {
    /// The images of the runtime.
    Images,
    /// The logs of pods, and no images.
    Logs,
    /// The kubelet's directories of pods, and neither images nor logs.
    Kubelet,
}

/// Shows these file systems, and no others.
pub(super) fn show(values: &Values, found: &[(UsageOf, FileSystem)], policy: &Policy) {
    let used_inodes = |disk: &FileSystem| Some(disk.inodes?.saturating_sub(disk.inodes_free?));
    show_value(values, FS_CAPACITY, found, |disk| Some(disk.capacity_bytes));
    show_value(values, FS_USED, found, |disk| Some(disk.capacity_bytes.saturating_sub(disk.available_bytes)));
    show_value(values, FS_INODES, found, |disk| disk.inodes);
    show_value(values, FS_INODES_USED, found, used_inodes);
    let thresholds = found.iter().flat_map(|(of, disk)| thresholds(*of, disk, policy));
    values.replace(FS_THRESHOLD, "", thresholds);
    let inodes = found.iter().filter(|(_, disk)| disk.inodes.is_some());
    let pressure = used_percent(policy.pressure.free_inodes_percent);
    let inodes = inodes.filter_map(|(of, _)| Some((labels(*of, "pressure"), pressure?)));
    values.replace(FS_INODES_THRESHOLD, "", inodes);
}

fn show_value(
    values: &Values,
    definition: Definition,
    found: &[(UsageOf, FileSystem)],
    of: impl Fn(&FileSystem) -> Option<u64>,
) {
    let shown = found.iter().filter_map(|(name, disk)| Some((vec![filesystem(*name)], number(of(disk)?))));
    values.replace(definition, "", shown);
}

fn filesystem(of: UsageOf) -> (&'static str, &'static str) {
    ("filesystem", of.into())
}

fn labels(of: UsageOf, threshold: &'static str) -> Labels {
    vec![filesystem(of), ("threshold", threshold)]
}

/// Returns the usage at which a pass over images begins and ends to remove, for the file system of the images only, and
/// the usage at which disk pressure begins.
fn thresholds(of: UsageOf, disk: &FileSystem, policy: &Policy) -> impl Iterator<Item = (Labels, f64)> + use<> {
    let percent = |percent: u64| number(percent) / 100.0;
    let (high, low) = (policy.images.high_threshold_percent, policy.images.low_threshold_percent);
    let images = [("high", percent(high)), ("low", percent(low))];
    let images = images.into_iter().filter(move |_| of == UsageOf::Images);
    let pressure = pressure_bytes(&policy.pressure, disk).map(|ratio| ("pressure", ratio));
    images.chain(pressure).map(move |(threshold, ratio)| (labels(of, threshold), ratio))
}

/// Returns the lower one of the two limits, as usage.
fn pressure_bytes(policy: &PressurePolicy, disk: &FileSystem) -> Option<f64> {
    let bytes = (policy.free_bytes > 0 && disk.capacity_bytes > 0)
        .then(|| number(disk.capacity_bytes.saturating_sub(policy.free_bytes)) / number(disk.capacity_bytes));
    let percent = used_percent(policy.free_percent);
    bytes.into_iter().chain(percent).reduce(f64::min)
}

/// Returns the usage at a limit of free percent; `None` = the limit is off.
fn used_percent(free: u64) -> Option<f64> {
    (free > 0).then(|| number(100_u64.saturating_sub(free)) / 100.0)
}
