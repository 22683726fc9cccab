//! How long the space of a disk lasts: what was written to it in the last hours, and when it reaches a limit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{DiskGrowth, DiskMemory, age_text, size_text};

/// The least time that a forecast is made of.
pub(super) const LEAST_SECONDS: u64 = 60 * 60;
/// The least time of a period whose rate counts for the range.
const LEAST_PERIOD: u64 = 20 * 60;
/// A limit that is reached later than this is not shown: a node changes more within a week.
const HORIZON_SECONDS: u64 = 7 * 24 * 60 * 60;

/// What was written to a disk in the last hours, without what kubegc reclaimed, and when limits are reached if that goes on.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Forecast {
    /// The mean, in bytes an hour.
    pub bytes_per_hour: i64,
    /// The least of half an hour, in bytes an hour.
    pub least_bytes_per_hour: i64,
    /// The most of half an hour, in bytes an hour.
    pub most_bytes_per_hour: i64,
    /// Until image removal begins; `null` = it has begun, or not within a week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_threshold: Option<TimeLeft>,
    /// Until the kubelet evicts pods, if nothing is reclaimed; `null` = it does now, or not within a week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<TimeLeft>,
}

/// The time until a limit is reached.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct TimeLeft {
    /// By the mean.
    pub seconds: u64,
    /// By the most that was written in half an hour.
    pub soonest_seconds: u64,
    /// By the least; `null` = not within a week.
    pub latest_seconds: Option<u64>,
}

// === impl Forecast ===

impl Forecast {
    /// Returns the forecast of a disk; `None` = it was not observed for long enough. The limits are bytes that are free until
    /// each is reached; `None` = no limit.
    pub(super) fn of(memory: &DiskMemory, high_threshold: Option<u64>, eviction: Option<u64>) -> Option<Self> {
        let seconds = sampled_seconds(memory);
        if seconds < LEAST_SECONDS {
            return None;
        }
        let bytes = memory.growth.iter().map(|period| period.bytes).fold(0, i64::saturating_add);
        let mean = rate(&DiskGrowth { seconds, bytes, since: memory.at });
        let rates = || memory.growth.iter().filter(|period| period.seconds >= LEAST_PERIOD).map(rate);
        let (least, most) = (rates().min().unwrap_or(mean).min(mean), rates().max().unwrap_or(mean).max(mean));
        let until = |left: Option<u64>| TimeLeft::until(left?, [most, mean, least]);
        Some(Self {
            bytes_per_hour: mean,
            least_bytes_per_hour: least,
            most_bytes_per_hour: most,
            high_threshold: until(high_threshold),
            eviction: until(eviction),
        })
    }

    /// Returns the time until so many bytes are written; `None` = not within a week.
    pub(super) fn until(&self, left: u64) -> Option<TimeLeft> {
        TimeLeft::until(left, [self.most_bytes_per_hour, self.bytes_per_hour, self.least_bytes_per_hour])
    }

    /// Returns the forecast for people, as `grows by 2.0GiB an hour; evictions begin in 5h (3h20m to 12h)`.
    pub fn text(&self) -> String {
        let Ok(rate) = u64::try_from(self.bytes_per_hour) else { return "does not grow".to_owned() };
        let limits = [("removal of images begins", self.high_threshold), ("evictions begin", self.eviction)];
        let limits = limits.into_iter().filter_map(|(limit, left)| Some(format!("; {limit} in {}", left?.text())));
        format!("grows by {} an hour{}", size_text(rate), limits.collect::<String>())
    }
}

/// Returns for how long a disk was observed.
pub(super) fn sampled_seconds(memory: &DiskMemory) -> u64 {
    memory.growth.iter().map(|period| period.seconds).fold(0, u64::saturating_add)
}

/// Returns the bytes an hour of a period.
fn rate(period: &DiskGrowth) -> i64 {
    let bytes = i128::from(period.bytes) * 3600 / i128::from(period.seconds.max(1));
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

// === impl TimeLeft ===

impl TimeLeft {
    /// Returns the time until so many bytes are written, at the highest rate, the mean and the lowest, in bytes an hour.
    fn until(left: u64, [most, mean, least]: [i64; 3]) -> Option<Self> {
        let seconds = |rate: i64| {
            let rate = u128::try_from(rate).ok().filter(|rate| *rate > 0)?;
            let seconds = u64::try_from(u128::from(left) * 3600 / rate).unwrap_or(u64::MAX);
            (seconds <= HORIZON_SECONDS).then_some(seconds)
        };
        if left == 0 {
            return None;
        }
        Some(Self { seconds: seconds(mean)?, soonest_seconds: seconds(most)?, latest_seconds: seconds(least) })
    }

    pub(super) fn text(self) -> String {
        let age = |seconds: u64| age_text(i64::try_from(seconds).unwrap_or(i64::MAX));
        let latest = self.latest_seconds.map_or_else(|| "or later".to_owned(), |latest| format!("to {}", age(latest)));
        format!("{} ({} {latest})", age(self.seconds), age(self.soonest_seconds))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const GIB: i64 = 1 << 30;

    /// The forecast of a disk with so many GiB in each half of an hour, of which so many are free until each limit.
    fn forecast(written: &[i64], high: u64, eviction: u64) -> Option<Forecast> {
        let period = |gib: &i64| DiskGrowth { since: Timestamp::UNIX_EPOCH, seconds: 1800, bytes: gib * GIB };
        let growth = written.iter().map(period).collect();
        let memory =
            DiskMemory { holds: Vec::new(), at: Timestamp::UNIX_EPOCH, used_bytes: 0, reclaimed_bytes: 0, growth };
        let bytes = |gib: u64| Some(gib << 30);
        Forecast::of(&memory, bytes(high), bytes(eviction))
    }

    fn text(written: &[i64], high: u64, eviction: u64) -> String {
        forecast(written, high, eviction).map_or_else(|| "none".to_owned(), |forecast| forecast.text())
    }

    #[test]
    fn a_forecast_has_the_range_of_what_was_written() {
        let both = "grows by 4.0GiB an hour; removal of images begins in 120m (80m to 4h); evictions begin in 5h (3h20m to 10h)";
        assert_eq!(text(&[1, 3, 2], 8, 20), both);
        assert_eq!(text(&[1, 3, 2], 0, 20), "grows by 4.0GiB an hour; evictions begin in 5h (3h20m to 10h)");
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        assert_eq!(text(&[1], 8, 20), "none", "half an hour is not enough");
        assert_eq!(text(&[-1, -1], 8, 20), "does not grow");
        assert_eq!(text(&[0, 4], 8, 8000), "grows by 4.0GiB an hour; removal of images begins in 120m (60m or later)");
    }
}
