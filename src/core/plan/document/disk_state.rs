//! The disks of the node, the limits that apply to them, and the account of a disk after the decisions of a plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Plan;
use super::action::Kind;
use super::decision::Decision;
use super::forecast::{Forecast, LEAST_SECONDS, TimeLeft, sampled_seconds};
use crate::model::{DiskMemory, DiskUse, FileSystem, NodeDisk, Snapshot, exact_size_text, size_text};
use crate::plan::disk_usage::Usage;
use crate::plan::policy::Policy;
use crate::store::{Category, DiskAccount, ImageStates, account};

/// A disk of the node, and the limits that apply to it.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct DiskState {
    /// What it holds, and how full it is.
    #[serde(flatten)]
    pub disk: NodeDisk,
    /// Used space at which the removal of images begins, in percent; `null` = it has no images.
    pub high_threshold_percent: Option<u64>,
    /// Used space at which it ends.
    pub low_threshold_percent: Option<u64>,
    /// Free bytes below which the disk has pressure; `null` = no limit.
    pub pressure_below_bytes: Option<u64>,
    /// Free inodes below which the disk has pressure; `null` = no limit.
    pub pressure_below_inodes: Option<u64>,
    /// Free bytes below which the kubelet evicts pods, by its configuration if that was given, else by its defaults; `null` = no
    /// limit.
    pub eviction_below_bytes: Option<u64>,
    /// What was written to it in the last hours, and when limits are reached; `null` = not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Forecast>,
    /// For how long it was observed, as long as that is too short for a forecast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_seconds: Option<u64>,
}

/// One disk.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskSummary {
    /// The first of what it holds: `images`, `logs` or `kubelet`.
    #[schemars(length(max = 16))]
    pub holds: String,
    /// Used space in percent, rounded up as in the kubelet.
    #[schemars(with = "i64")]
    pub used_percent: u64,
    /// Its size in bytes.
    #[schemars(with = "i64")]
    pub capacity_bytes: u64,
    /// Free bytes.
    #[schemars(with = "i64")]
    pub available_bytes: u64,
    /// Where the removal of images begins, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub high_threshold_percent: Option<u64>,
    /// Seconds until the kubelet evicts pods, as far as the last hours show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub eviction_in_seconds: Option<u64>,
    /// How full it is, and its limits, as text; empty if the status would be too large.
    #[schemars(length(max = 200))]
    pub text: String,
    /// How long its space lasts, as text; empty if it is not known yet.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 200))]
    pub forecast: String,
}

// === impl DiskState ===

impl DiskState {
    /// Returns the disks of a snapshot.
    pub(in crate::plan) fn all(snapshot: &Snapshot, policy: &Policy) -> Vec<Self> {
        let memory = &snapshot.memory.disks;
        let state = |disk: &NodeDisk| {
            let state = Self::new(disk.clone(), policy);
            let memory = memory.get(&disk.file_system.mountpoint);
            let sampled_seconds = memory.map(sampled_seconds).filter(|seconds| *seconds < LEAST_SECONDS);
            Self { forecast: memory.and_then(|memory| state.forecast(memory)), sampled_seconds, ..state }
        };
        snapshot.disks.iter().map(state).collect()
    }

    /// Returns the state of a disk under a policy.
    pub fn new(disk: NodeDisk, policy: &Policy) -> Self {
        let images = disk.holds.contains(&DiskUse::Images).then_some(&policy.images);
        Self {
            high_threshold_percent: images.map(|images| images.high_threshold_percent),
            low_threshold_percent: images.map(|images| images.low_threshold_percent),
            pressure_below_bytes: policy.pressure.below_bytes(&disk.file_system),
            pressure_below_inodes: policy.pressure.below_inodes(&disk.file_system),
            eviction_below_bytes: policy.eviction.below_bytes(&disk),
            forecast: None,
            sampled_seconds: None,
            disk,
        }
    }

    fn forecast(&self, memory: &DiskMemory) -> Option<Forecast> {
        let FileSystem { capacity_bytes, available_bytes, .. } = self.disk.file_system;
        let free_at = |used_percent| Usage::of(capacity_bytes, available_bytes).available_at(used_percent);
        let left = |free: u64| available_bytes.saturating_sub(free);
        let high = self.high_threshold_percent.map(|percent| left(free_at(percent)));
        Forecast::of(memory, high, self.eviction_below_bytes.map(left))
    }

    /// Returns the time until the kubelet evicts pods if all removable images are removed before; `reclaimable` are their bytes.
    /// `None` = the disk has no images, or not within a week.
    pub fn eviction_after_collection(&self, reclaimable: u64) -> Option<TimeLeft> {
        let free = self.disk.file_system.available_bytes.saturating_add(reclaimable);
        self.high_threshold_percent?;
        self.forecast.as_ref()?.until(free.saturating_sub(self.eviction_below_bytes?))
    }

    /// Returns the forecast for people, with what a collection changes; `reclaimable` are the bytes of removable images. `None` = the disk
    /// was not observed yet.
    pub fn forecast_text(&self, reclaimable: u64) -> Option<String> {
        if let Some(seconds) = self.sampled_seconds {
            return Some(format!("not yet: {} of {} minutes of samples", seconds / 60, LEAST_SECONDS / 60));
        }
        let after = self.eviction_after_collection(reclaimable).filter(|_| reclaimable > 0);
        let after = after.map(|left| format!(", in {} if all removable images go first", left.text()));
        Some(self.forecast.as_ref()?.text() + &after.unwrap_or_default())
    }

    /// Returns the used space in percent, rounded up as in the kubelet; `None` = the disk reports no capacity.
    pub fn used_percent(&self) -> Option<u64> {
        let FileSystem { capacity_bytes, available_bytes, .. } = self.disk.file_system;
        (capacity_bytes > 0).then(|| Usage::of(capacity_bytes, available_bytes).used_percent())
    }

    /// Returns the bytes that would be missing to reach the low threshold if images had to be removed at the high one, or now if
    /// it has been reached; 0 = enough; `None` = the disk has no images. `reclaimable` are the bytes of removable images.
    pub fn shortfall_bytes(&self, reclaimable: u64) -> Option<u64> {
        let FileSystem { capacity_bytes, available_bytes, .. } = self.disk.file_system;
        let usage = Usage::of(capacity_bytes, available_bytes);
        let begins = usage.available_at(self.high_threshold_percent?).min(available_bytes);
        Some(usage.available_at(self.low_threshold_percent?).saturating_sub(begins).saturating_sub(reclaimable))
    }

    /// Returns the state for people, as `70% used (high 85%, low 80%), 300.0GiB of 1.0TiB free, /var/lib/containerd`.
    pub fn text(&self) -> String {
        let FileSystem { capacity_bytes, available_bytes, mountpoint, .. } = &self.disk.file_system;
        let used = self.used_percent().map_or_else(|| "unknown".to_owned(), |percent| format!("{percent}% used"));
        let (free, all) = (size_text(*available_bytes), size_text(*capacity_bytes));
        format!("{used} ({}), {free} of {all} free, {}", self.limits_text(), mountpoint.display())
    }

    /// Returns the limits for people, as `high 85%, low 80%, pressure below 20GiB free`.
    fn limits_text(&self) -> String {
        let thresholds = self.high_threshold_percent.zip(self.low_threshold_percent);
        let limits = [
            thresholds.map(|(high, low)| format!("high {high}%, low {low}%")),
            self.pressure_below_bytes.map(|bytes| format!("pressure below {} free", exact_or_rounded(bytes))),
            self.pressure_below_inodes.map(|inodes| format!("pressure below {inodes} free inodes")),
        ];
        let limits: Vec<_> = limits.into_iter().flatten().collect();
        if limits.is_empty() { "no limit".to_owned() } else { limits.join(", ") }
    }
}

// === impl DiskSummary ===

impl From<&DiskState> for DiskSummary {
    fn from(state: &DiskState) -> Self {
        let holds: &'static str = state.disk.name().map_or("", Into::into);
        let eviction = state.forecast.as_ref().and_then(|forecast| forecast.eviction);
        Self {
            holds: holds.to_owned(),
            used_percent: state.used_percent().unwrap_or_default(),
            capacity_bytes: state.disk.file_system.capacity_bytes,
            available_bytes: state.disk.file_system.available_bytes,
            high_threshold_percent: state.high_threshold_percent,
            eviction_in_seconds: eviction.map(|left| left.seconds),
            text: state.text(),
            forecast: state.forecast_text(0).unwrap_or_default(),
        }
    }
}

impl DiskSummary {
    /// Leaves out the texts. Returns whether there were some.
    pub fn shorten(&mut self) -> bool {
        let bytes = self.text.len() + self.forecast.len();
        (self.text, self.forecast) = (String::new(), String::new());
        bytes > 0
    }
}

/// Formats a limit in bytes: exactly, unless that takes many digits.
fn exact_or_rounded(bytes: u64) -> String {
    let exact = exact_size_text(bytes);
    if exact.len() > 8 { size_text(bytes) } else { exact }
}

/// Makes the account of a snapshot, with the decisions of its plan about the images.
///
/// # Errors
/// Why there is none: the file system or the store of the runtime is unavailable.
pub fn disk_account(snapshot: &Snapshot, plan: &Plan) -> Result<DiskAccount, String> {
    account(snapshot, states(plan))
}

fn states(plan: &Plan) -> ImageStates {
    let images = plan.decisions().filter(|decision| decision.kind() == Kind::Image);
    let categories = images.filter_map(|decision| {
        let category = match decision {
            Decision::Remove(_) => Category::ImagesRemovable,
            // The reason why it is kept first says more.
            Decision::IfNeeded(_) => return None,
            Decision::Keep(kept) => kept.reason.explain().category,
        };
        Some((decision.id().as_ref().into(), (category, decision.explain().phrase.into_owned())))
    });
    categories.collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::model::DiskGrowth;
    use crate::plan::tests::node::node;

    /// A disk of 1000 bytes with the default thresholds, 85 and 80 %.
    fn state(available_bytes: u64) -> DiskState {
        let file_system = FileSystem { capacity_bytes: 1000, available_bytes, ..FileSystem::default() };
        DiskState::new(NodeDisk { holds: vec![DiskUse::Images], file_system }, &Policy::default())
    }

    #[test]
    fn the_shortfall_is_known_before_the_threshold() {
        assert_eq!(state(900).shortfall_bytes(50), Some(0), "50 bytes are needed at the threshold");
        assert_eq!(state(900).shortfall_bytes(20), Some(30));
        assert_eq!(state(100).shortfall_bytes(20), Some(80), "100 are needed now");
        let logs = NodeDisk { holds: vec![DiskUse::Logs], ..NodeDisk::default() };
        assert_eq!(DiskState::new(logs, &Policy::default()).shortfall_bytes(0), None);
    }

    #[test]
    fn a_collection_delays_the_evictions() {
        let memory = DiskMemory {
            growth: vec![DiskGrowth { since: Timestamp::UNIX_EPOCH, seconds: 7200, bytes: 20 }],
            holds: Vec::new(),
            at: Timestamp::UNIX_EPOCH,
            used_bytes: 0,
            reclaimed_bytes: 0,
        };
        // The kubelet evicts pods below 150 free bytes, and 10 an hour are written.
        let state = DiskState { forecast: state(250).forecast(&memory), ..state(250) };
        let seconds = |reclaimable| state.eviction_after_collection(reclaimable).map(|left| left.seconds / 3600);
        assert_eq!((seconds(0), seconds(50), seconds(5000)), (Some(10), Some(15), None));
        let evictions = "evictions begin in 10h (10h to 10h)";
        let text = |reclaimable| state.forecast_text(reclaimable).unwrap();
        assert!(text(0).ends_with(evictions), "{}", text(0));
        assert!(text(50).ends_with(&format!("{evictions}, in 15h (15h to 15h) if all removable images go first")));
        let logs = NodeDisk { holds: vec![DiskUse::Logs], ..state.disk.clone() };
        let of_logs = DiskState { forecast: state.forecast.clone(), ..DiskState::new(logs, &Policy::default()) };
        assert_eq!(of_logs.eviction_after_collection(50), None, "images are on another disk");
        let young = DiskState { forecast: None, sampled_seconds: Some(59 * 60 + 59), ..state };
        assert_eq!(young.forecast_text(50).unwrap(), "not yet: 59 of 60 minutes of samples");
    }

    #[test]
    fn limits_are_those_of_the_disk() {
        let mut policy = Policy::default();
        policy.pressure.free_bytes = 100 << 20;
        policy.pressure.free_inodes_percent = 5;
        let file_system = FileSystem {
            mountpoint: "/logs".into(),
            capacity_bytes: 1 << 30,
            available_bytes: 1 << 28,
            inodes: Some(1000),
            ..FileSystem::default()
        };
        let text = |of| DiskState::new(NodeDisk { holds: vec![of], file_system: file_system.clone() }, &policy).text();
        let pressure = "pressure below 100MiB free, pressure below 50 free inodes";
        assert_eq!(text(DiskUse::Logs), format!("75% used ({pressure}), 256.0MiB of 1.0GiB free, /logs"));
        assert_eq!(
            text(DiskUse::Images),
            format!("75% used (high 85%, low 80%, {pressure}), 256.0MiB of 1.0GiB free, /logs")
        );
        assert_eq!([1_048_577, 10_485_761].map(exact_or_rounded), ["1048577B", "10.0MiB"]);
    }

    #[test]
    fn a_new_disk_has_samples_and_no_forecast() {
        let memory = |seconds| DiskMemory {
            growth: vec![DiskGrowth { since: Timestamp::UNIX_EPOCH, seconds, bytes: 20 }],
            holds: Vec::new(),
            at: Timestamp::UNIX_EPOCH,
            used_bytes: 0,
            reclaimed_bytes: 0,
        };
        let of = |seconds| {
            let mut snapshot = node().snapshot();
            snapshot.disks = vec![state(250).disk];
            snapshot.memory.disks = [(String::new().into(), memory(seconds))].into();
            let state = DiskState::all(&snapshot, &Policy::default()).remove(0);
            (state.sampled_seconds, state.forecast.is_some())
        };
        assert_eq!([of(3599), of(3600)], [(Some(3599), false), (None, true)]);
    }

    #[test]
    fn a_summary_is_shortened_once() {
        let mut summary = DiskSummary::from(&state(100));
        assert_eq!([summary.shorten(), summary.shorten()], [true, false]);
    }
}
