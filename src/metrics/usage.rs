//! How full the disks are, and at which usage kubegc responds.

use super::definitions::*;
use super::registry::{Labels, Values, number};
use crate::model::FileSystem;
use crate::plan::DiskState;

/// Shows these disks, and no others.
pub(super) fn show(values: &Values, disks: &[DiskState]) {
    let used_inodes = |disk: &FileSystem| Some(disk.inodes?.saturating_sub(disk.inodes_free?));
    show_value(values, FS_CAPACITY, disks, |disk| Some(disk.capacity_bytes));
    show_value(values, FS_USED, disks, |disk| Some(disk.used_bytes()));
    show_value(values, FS_INODES, disks, |disk| disk.inodes);
    show_value(values, FS_INODES_USED, disks, used_inodes);
    values.replace(FS_THRESHOLD, "", disks.iter().flat_map(thresholds));
    let inodes = |state: &DiskState| {
        let usage = usage_at(state.disk.file_system.inodes?, state.pressure_below_inodes?)?;
        Some((labels(state, "pressure")?, usage))
    };
    values.replace(FS_INODES_THRESHOLD, "", disks.iter().filter_map(inodes));
    values.replace(FS_GROWTH, "", disks.iter().filter_map(growth));
    values.replace(FS_TIME_LEFT, "", disks.iter().flat_map(time_left));
}

/// Returns the bytes a second of a forecast.
fn growth(state: &DiskState) -> Option<(Labels, f64)> {
    let bytes = state.forecast.as_ref()?.bytes_per_hour;
    let per_second = number(bytes.unsigned_abs()) / 3600.0;
    Some((vec![("filesystem", state.disk.name()?.into())], if bytes < 0 { -per_second } else { per_second }))
}

/// Returns the time until each limit that a forecast has.
fn time_left(state: &DiskState) -> Vec<(Labels, f64)> {
    let (Some(forecast), Some(name)) = (&state.forecast, state.disk.name()) else { return Vec::new() };
    let limits = [("high_threshold", forecast.high_threshold), ("eviction", forecast.eviction)];
    let label = |limit| vec![("filesystem", name.into()), ("limit", limit)];
    limits.into_iter().filter_map(|(limit, left)| Some((label(limit), number(left?.seconds)))).collect()
}

fn show_value(values: &Values, definition: Definition, disks: &[DiskState], of: impl Fn(&FileSystem) -> Option<u64>) {
    let shown = disks.iter().filter_map(|state| {
        Some((vec![("filesystem", <&str>::from(state.disk.name()?))], number(of(&state.disk.file_system)?)))
    });
    values.replace(definition, "", shown);
}

fn labels(state: &DiskState, threshold: &'static str) -> Option<Labels> {
    Some(vec![("filesystem", state.disk.name()?.into()), ("threshold", threshold)])
}

/// Returns the usage at which a pass over images begins and ends to remove, and at which disk pressure begins.
fn thresholds(state: &DiskState) -> impl Iterator<Item = (Labels, f64)> + use<> {
    let percent = |percent: Option<u64>| Some(number(percent?) / 100.0);
    let pressure = state.pressure_below_bytes.and_then(|below| usage_at(state.disk.file_system.capacity_bytes, below));
    let limits = [
        ("high", percent(state.high_threshold_percent)),
        ("low", percent(state.low_threshold_percent)),
        ("pressure", pressure),
    ];
    limits.map(|(name, ratio)| labels(state, name).zip(ratio)).into_iter().flatten()
}

/// Returns the usage at a number of free bytes or inodes, from 0 to 1.
fn usage_at(all: u64, free: u64) -> Option<f64> {
    (all > 0).then(|| number(all.saturating_sub(free)) / number(all))
}
