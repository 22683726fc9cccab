//! Simulated lives of a cluster: the real controller against the API server in memory, in one thread with a paused clock. A seed
//! makes a script, an observer in the server judges each change, and long after the last step nothing may be left.
//! [CONTRIBUTING.md](../../../CONTRIBUTING.md#how-to-read-a-failing-life) says how to read a life that fails.

mod judge;
mod process;
mod script;
mod shrink;
mod stage;
mod truth;
mod world;

use self::script::{Policy, Step, script};
use self::world::play;

/// The number of lives, and the one that is printed.
const LIVES: &str = "KUBEGC_LIVES";
const SEED: &str = "KUBEGC_SEED";

#[expect(clippy::disallowed_methods, reason = "a test has no settings")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Plays every second life from this one on.
fn plays_from(first: u64) {
    for seed in (first..number(LIVES).unwrap_or(200)).step_by(2) {
        assert!(play(&script(seed)).fault.is_none(), "{}", shrink::failure(seed));
    }
}

fn holds(steps: &[Step]) {
    let life = play(steps);
    assert_eq!(life.fault, None, "{}", life.log);
}

#[test]
fn lives_of_even_seeds_do_no_harm_and_leave_nothing() {
    plays_from(0);
}

#[test]
fn lives_of_odd_seeds_do_no_harm_and_leave_nothing() {
    plays_from(1);
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..20 {
        let [first, second] = [(); 2].map(|()| play(&script(seed)).log);
        let differs = first.lines().zip(second.lines()).find(|(one, other)| one != other);
        assert!(first == second, "seed {seed}: {differs:?}");
    }
}

/// Prints one life as a story: `KUBEGC_SEED=7 cargo nextest run --no-capture one_life_as_a_story`.
#[test]
fn one_life_as_a_story() {
    let steps = script(number(SEED).unwrap_or(1));
    let life = play(&steps);
    println!("{}\n{}", script::as_text(&steps), shrink::story(&life.log));
    assert_eq!(life.fault, None);
}

/// Its check is pending as long as it runs.
#[test]
fn a_foreground_deletion_does_not_wait_for_the_check_of_the_object_itself() {
    holds(&[Step::Create(5, None), Step::Delete(5, Policy::Foreground), Step::Own(5, 5, false)]);
}
