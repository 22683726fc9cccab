//! Simulated lives of a node: the real service against `sim`, in one thread with a paused clock. A seed makes a script, an observer in
//! `sim` judges each removal, and long after the last step nothing may be left.
//! [CONTRIBUTING.md](../../../../CONTRIBUTING.md#how-to-read-a-failing-life) says how to read a life that fails.

mod agent;
mod files;
mod judge;
mod script;
mod world;

use self::script::{Reply, Sort, Step, script};
use self::world::play;
use crate::testing::lives::Lives;

const NODE: Lives<Step> = Lives {
    script,
    play,
    imports: "use self::script::{Api::*, Reply::*, Sort::*, Step::*};",
    // Steps, removals and the ends of processes.
    is_read: |line| !line.contains("reads "),
};

fn holds(steps: &[Step]) {
    NODE.holds(steps);
}

#[test]
fn lives_of_even_seeds_do_no_harm_and_leave_nothing() {
    NODE.plays(0, 40);
}

#[test]
fn lives_of_odd_seeds_do_no_harm_and_leave_nothing() {
    NODE.plays(1, 40);
}

#[test]
fn a_seed_replays_exactly() {
    NODE.replays(20);
}

/// A list that hangs makes the list of pods, which comes later, a minute younger than its pass.
#[test]
fn a_pod_is_absent_since_the_first_list_without_it() {
    let (begins, quiet) = ([70, 130, 130].map(Step::Wait), [70, 30, 70].map(Step::Wait));
    let ends = [Step::Trouble(Sort::Lists, Reply::Hangs, 1), Step::Delete(2)];
    holds(&[&[Step::Bind(2, 2)], &begins[..], &ends, &quiet].concat());
}

/// A removal without an answer takes ten minutes.
#[test]
fn a_pod_is_looked_up_again_after_a_long_removal() {
    let quiet = [310, 130, 310, 65, 5, 65, 130].map(Step::Wait);
    let ends = [Step::Trouble(Sort::Removals, Reply::Unanswered, 1), Step::Wait(70), Step::Delete(4)];
    holds(&[&[Step::Bind(4, 0)], &ends[..], &quiet].concat());
}

/// The instances of a pod that comes again count from 0 again (seed 661).
#[test]
fn lines_of_a_pod_that_comes_again_follow_its_earlier_ones() {
    let ends = [Step::Restart(1), Step::Wait(5), Step::Delete(1), Step::Wait(70), Step::Wait(70), Step::Wait(70)];
    let begins = [Step::Reload(1), Step::Bind(1, 1), Step::Wait(310)];
    holds(&[&begins[..], &ends, &[Step::Return(1), Step::Wait(310)]].concat());
}

/// Prints one life as a story: `KUBEGC_SEED=7 cargo nextest run --no-capture one_life_as_a_story`.
#[test]
fn one_life_as_a_story() {
    NODE.prints();
}
