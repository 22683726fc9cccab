//! How much is written to each disk: what it grew by, and what kubegc reclaimed meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::model::{DiskGrowth, DiskMemory, NodeDisk, Snapshot};
use crate::plan::times::age;

/// The least time between two samples. It saves writes to the store.
const SAMPLE: Duration = Duration::from_mins(4);
/// The longest time between two samples of one period. In a longer one others may have removed much.
const GAP: Duration = Duration::from_mins(30);
/// The length of a period of growth.
const PERIOD: Duration = Duration::from_mins(30);
/// How long a period counts.
const MEMORY: Duration = Duration::from_hours(6);

/// Returns the memory of the disks after this snapshot.
pub(super) fn remember(snapshot: &Snapshot) -> BTreeMap<PathBuf, DiskMemory> {
    let (before, now) = (&snapshot.memory.disks, snapshot.taken_at);
    let sample = |disk: &NodeDisk| {
        let path = &disk.file_system.mountpoint;
        (path.clone(), sampled(before.get(path), disk, now))
    };
    let measured: BTreeMap<_, _> = snapshot.disks.iter().map(sample).collect();
    let is_missing = |path: &Path, known: &DiskMemory| !measured.contains_key(path) && age(now, known.at) < MEMORY;
    let missing = before.iter().filter(|(path, known)| is_missing(path, known));
    missing.map(|(path, known)| (path.clone(), known.clone())).chain(measured.clone()).collect()
}

/// Returns the memory of a disk after a measurement.
fn sampled(before: Option<&DiskMemory>, disk: &NodeDisk, now: Timestamp) -> DiskMemory {
    let used_bytes = disk.file_system.used_bytes();
    let new = DiskMemory { holds: disk.holds.clone(), at: now, used_bytes, reclaimed_bytes: 0, growth: Vec::new() };
    let Some(known) = before else { return new };
    let since = age(now, known.at);
    if since < SAMPLE {
        return known.clone();
    }
    let mut growth = known.growth.clone();
    growth.retain(|period| age(now, period.since) < MEMORY);
    if since <= GAP {
        let bytes = i128::from(used_bytes) - i128::from(known.used_bytes) + i128::from(known.reclaimed_bytes);
        add(&mut growth, known.at, since, i64::try_from(bytes).unwrap_or(i64::MAX));
    }
    DiskMemory { growth, ..new }
}

/// Adds to the last period, or begins another one.
fn add(growth: &mut Vec<DiskGrowth>, since: Timestamp, time: Duration, bytes: i64) {
    let seconds = time.as_secs();
    match growth.last_mut().filter(|last| last.seconds + seconds <= PERIOD.as_secs()) {
        Some(last) => {
            last.seconds += seconds;
            last.bytes = last.bytes.saturating_add(bytes);
        }
        None => growth.push(DiskGrowth { since, seconds, bytes }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{DiskUse, FileSystem};

    const MIB: u64 = 1 << 20;
    /// The first minute, in 2027.
    const START: i64 = 1_800_000_000;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(START + minute * 60).unwrap()
    }

    /// Returns the memory after passes: minute and used MiB of each. `reclaimed` MiB are reclaimed after the first pass.
    fn after(passes: &[(i64, u64)], reclaimed: u64) -> DiskMemory {
        let mut disks = BTreeMap::new();
        for (minute, used) in passes {
            let mut snapshot: Snapshot = serde_json::from_value(json!({ "taken_at": at(*minute) })).unwrap();
            let file_system = FileSystem {
                capacity_bytes: 1000 * MIB,
                available_bytes: (1000 - used) * MIB,
                ..FileSystem::default()
            };
            snapshot.disks = vec![NodeDisk { holds: vec![DiskUse::Images], file_system }];
            snapshot.memory.disks = disks;
            disks = remember(&snapshot);
            if *minute == passes[0].0 {
                for disk in disks.values_mut() {
                    disk.reclaimed_bytes = reclaimed * MIB;
                }
            }
        }
        disks.remove(Path::new("")).unwrap()
    }

    /// Minute, minutes and MiB of each period.
    fn periods(memory: &DiskMemory) -> Vec<(i64, u64, i64)> {
        let mib = i64::try_from(MIB).unwrap();
        memory
            .growth
            .iter()
            .map(|one| ((one.since.as_second() - START) / 60, one.seconds / 60, one.bytes / mib))
            .collect()
    }

    #[test]
    fn what_was_reclaimed_counts_as_written() {
        assert_eq!(periods(&after(&[(0, 100), (5, 110)], 0)), [(0, 5, 10)]);
        assert_eq!(periods(&after(&[(0, 100), (5, 60)], 50)), [(0, 5, 10)], "50 of 100 were reclaimed, and 10 came");
        assert_eq!(periods(&after(&[(0, 100), (5, 90)], 0)), [(0, 5, -10)], "others removed them");
    }

    #[test]
    fn periods_have_half_an_hour_and_are_forgotten_after_six() {
        let every_five: Vec<_> = (0..=80_u64).map(|pass| (i64::try_from(pass).unwrap() * 5, pass)).collect();
        let memory = after(&every_five, 0);
        assert_eq!(periods(&memory).first(), Some(&(60, 30, 6)));
        assert_eq!((memory.growth.len(), periods(&memory).last()), (12, Some(&(390, 10, 2))));
    }

    #[test]
    fn passes_close_together_are_one_sample_and_a_gap_is_none() {
        assert_eq!(periods(&after(&[(0, 100), (1, 200), (3, 300), (5, 110)], 0)), [(0, 5, 10)]);
        assert_eq!(periods(&after(&[(0, 100), (31, 500), (36, 510)], 0)), [(31, 5, 10)]);
    }
}
