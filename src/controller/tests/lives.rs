//! Simulated lives of a cluster: the real controller against the API server in memory, in one thread with a paused clock. A seed
//! makes a script, an observer in the server judges each change, and long after the last step nothing may be left.
//! [CONTRIBUTING.md](../../../CONTRIBUTING.md#how-to-read-a-failing-life) says how to read a life that fails.

mod judge;
mod process;
mod script;
mod stage;
mod truth;
mod world;

use self::script::{Policy, Serving, Step, script};
use self::world::play;
use crate::testing::lives::Lives;

const CLUSTER: Lives<Step> = Lives {
    script,
    play,
    imports: "use self::script::{Policy::*, Reply::*, Serving::*, Sort::*, Step::*};",
    // Steps, changes and the ends of processes.
    is_read: |line| !line.contains(" GET ") && !line.contains("/leases") && !line.contains("/events"),
};

fn holds(steps: &[Step]) {
    CLUSTER.holds(steps);
}

#[test]
fn lives_of_even_seeds_do_no_harm_and_leave_nothing() {
    CLUSTER.plays(0, 200);
}

#[test]
fn lives_of_odd_seeds_do_no_harm_and_leave_nothing() {
    CLUSTER.plays(1, 200);
}

#[test]
fn a_seed_replays_exactly() {
    CLUSTER.replays(20);
}

/// Prints one life as a story: `KUBEGC_SEED=7 cargo nextest run --no-capture one_life_as_a_story`.
#[test]
fn one_life_as_a_story() {
    CLUSTER.prints();
}

/// Its check is pending as long as it runs.
#[test]
fn a_foreground_deletion_does_not_wait_for_the_check_of_the_object_itself() {
    holds(&[Step::Create(5, None), Step::Delete(5, Policy::Foreground), Step::Own(5, 5, false)]);
}

/// Its monitor had no list before it ended, so it shows no end.
#[test]
fn the_dependents_of_an_owner_that_ended_unseen_are_collected() {
    let ends = [Step::Serve(0, Serving::Unlistable), Step::Delete(0, Policy::Foreground), Step::Wait(45_000)];
    holds(&[&[Step::Create(0, None), Step::Create(1, Some((0, false)))], &ends[..]].concat());
}
