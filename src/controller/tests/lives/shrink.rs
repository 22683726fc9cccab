//! Makes a life that fails smaller, and prints it as a test.

use super::script::{Step, as_text, script};
use super::world::play;

/// How many smaller lives are tried at most.
const MOST: usize = 400;

/// Returns the smallest script found that fails too.
fn smaller(steps: Vec<Step>) -> Vec<Step> {
    let (mut steps, mut part, mut tried) = (steps, usize::MAX, 0);
    part = part.min(steps.len() / 2).max(1);
    loop {
        let (mut at, before) = (0, steps.len());
        while at < steps.len() && tried < MOST {
            let end = steps.len().min(at + part);
            let rest: Vec<_> = [&steps[..at], &steps[end..]].concat();
            tried += 1;
            if play(&rest).fault.is_some() { steps = rest } else { at = end }
        }
        if tried >= MOST || part == 1 && steps.len() == before {
            return steps;
        }
        part = (part / 2).max(1);
    }
}

/// Returns the lines of a log that a person reads: steps, changes and the ends of processes.
pub(super) fn story(log: &str) -> String {
    let is_read = |line: &&str| !line.contains(" GET ") && !line.contains("/leases") && !line.contains("/events");
    log.lines().filter(is_read).collect::<Vec<_>>().join("\n")
}

/// Describes the life of a seed that fails.
pub(super) fn failure(seed: u64) -> String {
    let steps = smaller(script(seed));
    let life = play(&steps);
    let fault = life.fault.unwrap_or_default();
    format!("seed {seed}: {fault}\n\n{}\n\n{}", as_text(&steps), story(&life.log))
}
