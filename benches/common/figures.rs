//! Figures of the benchmarks.

#![allow(dead_code, clippy::cast_precision_loss, reason = "each benchmark uses a part, and prints few digits")]

/// Returns the median; of an even count the upper one.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns bytes as MiB.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Returns whether a part of a benchmark is to run: without arguments all are.
pub fn is_chosen(part: &str) -> bool {
    parts().count() == 0 || is_named(part)
}

/// Returns whether a part that takes long is to run: it has to be named.
pub fn is_named(part: &str) -> bool {
    parts().any(|named| named == part)
}

fn parts() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| !argument.starts_with("--"))
}

/// Returns the resident memory of a process, all of it and what no file backs, in bytes.
pub fn memory(id: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let value = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    (value("VmRSS"), value("RssAnon"))
}

/// Prints a row of docs/performance.md: what is measured, what kubegc and its peer reach, and the figure that has an aim: their ratio,
/// if there is a peer. `scripts/bench.sh` compares it with that page.
pub fn row(what: &str, kubegc: &str, peer: &str, figure: f64, aim: f64) {
    let outcome = if figure <= aim { "met" } else { "missed" };
    println!("| {what} | {kubegc} | {peer} | {figure:.2} | {aim} | {outcome} |");
}
