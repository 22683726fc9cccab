//! What happens to fifty pods, thrown from a seed: the same for every node that plays it.

use std::time::Duration;

use serde_json::json;

use crate::rig::Manifest;

/// The lives of one name, one after the other: each has a uid of its own.
pub struct Part {
    /// The pod's name.
    pub name: String,
    /// Its lives.
    pub lives: Vec<Life>,
}

/// One life of a pod.
pub struct Life {
    /// When it is created, from the beginning on; later if the one before it is still there.
    pub at: Duration,
    /// When its end is asked for; `None` = it lives on.
    pub until: Option<(Duration, Ending)>,
    /// What it does.
    pub shape: Shape,
}

/// How a pod is deleted.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// With its grace period.
    Graceful,
    /// From the API at once, whatever runs.
    Forced,
}

/// What a pod does. Its label `shape` says so.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Runs until it is told to end.
    Runs,
    /// Runs, after two init containers that finish.
    Prepares,
    /// Has one container that finishes and one that runs.
    Finishes,
    /// Finishes altogether.
    Succeeds,
    /// Fails, and is not run again.
    Fails,
    /// Fails again and again.
    Crashes,
    /// Fails again and again, after an init container that finished.
    PreparesAndCrashes,
    /// Takes its time to end.
    Lingers,
}

/// splitmix64: small, and good enough to throw dice.
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

/// Ends kindly when told to.
const SERVE: &str = "trap 'exit 0' TERM; sleep 1000000 & wait";

/// So many pods for so long.
pub fn parts(seed: u64, pods: usize, lasts: Duration) -> Vec<Part> {
    let mut dice = Dice(seed);
    (0..pods).map(|number| Part { name: format!("pod-{number:02}"), lives: lives(&mut dice, lasts) }).collect()
}

/// Begins in the first half and lives for 5 to 60 s; every other time the name comes back a little later.
fn lives(dice: &mut Dice, lasts: Duration) -> Vec<Life> {
    let (mut lives, mut at) = (Vec::new(), dice.between(Duration::ZERO, lasts / 2));
    loop {
        let shape = SHAPES[dice.below(SHAPES.len())];
        let end = at + dice.between(Duration::from_secs(5), Duration::from_mins(1));
        let ending = if dice.below(3) == 0 { Ending::Forced } else { Ending::Graceful };
        let until = (end < lasts).then_some((end, ending));
        lives.push(Life { at, until, shape });
        if until.is_none() || dice.below(2) == 0 {
            return lives;
        }
        at = end + dice.between(Duration::ZERO, Duration::from_secs(5));
    }
}

// === impl Shape ===

impl Shape {
    /// The pod of this shape.
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

    /// As the label says it.
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
