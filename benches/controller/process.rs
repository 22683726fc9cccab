//! What a running process has used.

use std::time::Duration;

/// What a process has used so far.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Memory now, in bytes.
    pub now: u64,
    /// The most memory at any time, in bytes.
    pub peak: u64,
    /// Processor time.
    pub cpu: Duration,
}

/// Returns what a process has used so far.
pub fn usage(pid: u32) -> Usage {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name in parentheses, which may have blanks: utime and stime are the 12th and 13th, in hundredths.
    let ticks: u64 =
        stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Usage { now: field(&status, "VmRSS"), peak: field(&status, "VmHWM"), cpu: Duration::from_millis(ticks * 10) }
}

/// Returns the process whose command line has this part and no other part of the machine's.
pub fn with_argument(part: &str) -> u32 {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(part)
    };
    all.into_iter().find(is_it).unwrap_or_else(|| panic!("no process has {part}"))
}

fn field(status: &str, name: &str) -> u64 {
    // A process that has ended, and that its parent has not looked at yet, has none.
    let Some(line) = status.lines().find(|line| line.starts_with(name)) else { return 0 };
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
