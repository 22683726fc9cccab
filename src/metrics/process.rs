//! The metrics of the process itself, with the names that the client libraries of Prometheus use. Each scrape reads them from
//! `/proc`; a value that cannot be read is left out.
//!
//! A text file for `node_exporter` has none of them: that program serves its own.

use std::fmt;

use procfs::process::{LimitValue, Process, Stat};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::definitions::*;
use super::registry::{Labels, encode_values, number};

/// Reads the values of this process.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    /// Seconds since 1970; `None` = unknown. It is read once, because a clock that is set would move it.
    started_at: Option<f64>,
}

// === impl ProcessCollector ===

impl ProcessCollector {
    pub(super) fn new() -> Self {
        Self { started_at: started_at() }
    }

    fn values(&self) -> Vec<(Definition, f64)> {
        let process = Process::myself().ok();
        let stat = process.as_ref().and_then(|process| process.stat().ok());
        let limits = process.as_ref().and_then(|process| process.limits().ok());
        let open = process.as_ref().and_then(|process| process.fd_count().ok());
        let max = limits.and_then(|limits| match limits.max_open_files.soft_limit {
            LimitValue::Value(most) => Some(most),
            LimitValue::Unlimited => None,
        });
        let values = [
            (PROCESS_CPU, stat.as_ref().map(cpu_seconds)),
            (PROCESS_RESIDENT, stat.as_ref().map(|stat| number(stat.rss.saturating_mul(procfs::page_size())))),
            (PROCESS_VIRTUAL, stat.as_ref().map(|stat| number(stat.vsize))),
            (PROCESS_FDS, open.map(|open| number(open as u64))),
            (PROCESS_MAX_FDS, max.map(number)),
            (PROCESS_START, self.started_at),
        ];
        values.into_iter().filter_map(|(definition, value)| Some((definition, value?))).collect()
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (definition, value) in self.values() {
            encode_values(&mut encoder, definition, [(Labels::new(), value)])?;
        }
        Ok(())
    }
}

fn cpu_seconds(stat: &Stat) -> f64 {
    number(stat.utime.saturating_add(stat.stime)) / number(procfs::ticks_per_second())
}

fn started_at() -> Option<f64> {
    let stat = Process::myself().ok()?.stat().ok()?;
    let since_boot = number(stat.starttime) / number(procfs::ticks_per_second());
    Some(number(procfs::boot_time_secs().ok()?) + since_boot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_those_of_this_process() {
        let collector = ProcessCollector::new();
        let values = collector.values();
        let value = |of: Definition| values.iter().find(|(definition, _)| definition.name == of.name).unwrap().1;
        assert_eq!(values.len(), PROCESS.len());
        assert!(value(PROCESS_RESIDENT) > 1e6 && value(PROCESS_RESIDENT) < value(PROCESS_VIRTUAL));
        assert!((3.0..=value(PROCESS_MAX_FDS)).contains(&value(PROCESS_FDS)));
        // A new file has the time of now.
        let now = tempfile::tempfile().unwrap().metadata().unwrap().modified().unwrap();
        let age = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64() - value(PROCESS_START);
        assert!((-2.0..3600.0).contains(&age), "{age}");
        let before = value(PROCESS_CPU);
        let mut work = 0_u64;
        while cpu_seconds(&Process::myself().unwrap().stat().unwrap()) <= before {
            work = std::hint::black_box(work + 1);
        }
        assert!(collector.values()[0].1 > before);
    }
}
