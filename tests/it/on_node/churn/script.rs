//! What happens to the pods, generated from a seed: every node with the same seed gets the same sequence.

use std::time::Duration;

use serde_json::json;

use crate::rig::Manifest;

/// The pods of one name, one after the other: each has its own uid.
pub struct Part {
    /// The name of the pods.
    pub name: String,
    /// The pods.
    pub lives: Vec<Life>,
}

/// One pod.
pub struct Life {
    /// When it is created, counted from the start; later if the previous pod still exists.
    pub at: Duration,
    /// When it is deleted; `None` = never.
    pub until: Option<(Duration, Ending)>,
    /// The behavior of the pod.
    pub shape: Shape,
}

/// How a pod is deleted.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// With its grace period.
    Graceful,
    /// From the API immediately, even if containers run.
    Forced,
}

/// The behavior of a pod. Its label `shape` has the name.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Runs until it is stopped.
    Runs,
    /// Runs, after two init containers that exit.
    Prepares,
    /// Has one container that exits and one that runs.
    Finishes,
    /// Succeeds.
    Succeeds,
    /// Fails, and is not restarted.
    Fails,
    /// Fails again and again.
    Crashes,
    /// Fails again and again, after an init container that exited.
    PreparesAndCrashes,
    /// Takes some time to stop.
    Lingers,
}

/// A random number generator, splitmix64: small, and good enough here.
struct Dice(u64);

const SHAPES: [Shape; 8] = [
    Shape::Runs,
    Shape::Prepares,
    Shape::Finishes,
    Shape::Succeeds,
    Shape::Fails,
    Shape::Crashes,
    Shape::PreparesAndCrashes,
    Shape::Lingers,
];

/// Exits on SIGTERM.
const SERVE: &str = "trap 'exit 0' TERM; sleep 1000000 & wait";

/// Generates so many names with pods, for this duration.
pub fn parts(seed: u64, pods: usize, lasts: Duration) -> Vec<Part> {
    let mut dice = Dice(seed);
    (0..pods).map(|number| Part { name: format!("pod-{number:02}"), lives: lives(&mut dice, lasts) }).collect()
}

/// Generates the pods of a name. The first one starts in the first half, and each lives for a 60th to a 5th of the whole
/// duration: 5 to 60 s of five minutes. In half of the cases the name is used again a little later.
fn lives(dice: &mut Dice, lasts: Duration) -> Vec<Life> {
    let (mut lives, mut at) = (Vec::new(), dice.between(Duration::ZERO, lasts / 2));
    loop {
        let shape = SHAPES[dice.below(SHAPES.len())];
        let end = at + dice.between(lasts / 60, lasts / 5);
        let ending = if dice.below(3) == 0 { Ending::Forced } else { Ending::Graceful };
        let until = (end < lasts).then_some((end, ending));
        lives.push(Life { at, until, shape });
        if until.is_none() || dice.below(2) == 0 {
            return lives;
        }
        at = end + dice.between(Duration::ZERO, lasts / 60);
    }
}

// === impl Shape ===

impl Shape {
    /// Returns the pod of this shape.
    pub fn pod(self, name: &str) -> Manifest {
        let pod = Manifest::new(name).with(|pod| pod["metadata"]["labels"] = json!({ "shape": self.name() }));
        match self {
            Self::Runs => pod.container("app", SERVE),
            Self::Prepares => pod.init("first", "exit 0").init("second", "echo ready").container("app", SERVE),
            Self::Finishes => pod.restart("OnFailure").container("job", "sleep 1").container("app", SERVE),
            Self::Succeeds => pod.restart("Never").container("job", "echo done").container("other", "sleep 3"),
            Self::Fails => pod.restart("Never").container("job", "exit 3"),
            Self::Crashes => pod.container("app", "sleep 1; exit 1"),
            Self::PreparesAndCrashes => pod.init("first", "echo ready").container("app", "exit 1"),
            Self::Lingers => pod.container("app", SERVE).pre_stop("sleep 4", 10),
        }
    }

    /// Returns the name in the label.
    pub fn name(self) -> String {
        format!("{self:?}")
    }
}

// === impl Dice ===

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let span = u64::try_from(to.saturating_sub(from).as_millis()).unwrap();
        from + Duration::from_millis(self.next() % span.max(1))
    }
}
