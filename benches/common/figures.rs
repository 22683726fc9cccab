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
    let parts: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    parts.is_empty() || parts.iter().any(|chosen| chosen == part)
}

/// Prints a row of docs/performance.md: what is measured, what kubegc and its peer reach, and the figure that has an aim: their ratio,
/// if there is a peer. `scripts/bench.sh` compares it with that page.
pub fn row(what: &str, kubegc: &str, peer: &str, figure: f64, aim: f64) {
    let outcome = if figure <= aim { "met" } else { "missed" };
    println!("| {what} | {kubegc} | {peer} | {figure:.2} | {aim} | {outcome} |");
}
