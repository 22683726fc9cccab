//! What happens to a cluster, as data: the steps of a life, made from a seed. A step that makes no sense when its turn comes,
//! such as the deletion of an object that does not exist, does nothing, so that any part of a script is a script.

use crate::testing::lives::Random;

/// The objects of a life. The number of an object is its name, and decides its kind and namespace.
pub(super) const OBJECTS: usize = 18;
/// The kinds: version, resource, kind, namespaced.
pub(super) const KINDS: [(&str, &str, &str, bool); 6] = [
    ("v1", "configmaps", "ConfigMap", true),
    ("apps/v1", "deployments", "Deployment", true),
    ("example.com/v1", "widgets", "Widget", true),
    ("v1", "pods", "Pod", true),
    ("example.org/v1", "platforms", "Platform", false),
    ("v1", "nodes", "Node", false),
];

/// What happens. Objects and kinds are numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing, for so many milliseconds.
    Wait(u64),
    /// An object is created, with this owner, which it blocks or not.
    Create(usize, Option<(usize, bool)>),
    /// The first object gets the second one as an owner, which it blocks or not.
    Own(usize, usize, bool),
    /// An object loses its owners.
    Disown(usize),
    /// Another field of an object changes.
    Touch(usize),
    /// A finalizer of others holds an object.
    Hold(usize),
    Release(usize),
    Delete(usize, Policy),
    /// An object is replaced by another one of its name.
    Recreate(usize),
    Serve(usize, Serving),
    /// The watches of a kind show events so many seconds later.
    Lag(usize, u64),
    /// The watches of a kind break.
    Cut(usize),
    /// The versions of the watches of a kind expire.
    Expire(usize),
    /// So many requests of this sort are answered like this.
    Trouble(Sort, Reply, usize),
    /// The process is killed at this request from now on, which has an effect or not, and started again.
    Kill(usize, bool),
    /// Another process takes the lease, and ends.
    LoseLease,
    /// The definition of a kind is deleted, after its objects.
    Drop(usize),
    /// The second namespace is deleted, or created again.
    Wipe,
    /// The wall clock jumps by so many seconds.
    Jump(i64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// How a kind is served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Serving {
    Works,
    /// Discovery calls its group-version stale, and each request fails.
    Down,
    /// Its lists fail.
    Unlistable,
    /// Discovery lacks it, and each request is answered by a 404.
    Missing,
}

pub(super) type Served = [Serving; KINDS.len()];

/// A sort of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sort {
    Reads,
    Lists,
    Watches,
    Deletions,
    Patches,
    Discoveries,
}

/// An answer that is not the right one, or not at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reply {
    Busy,
    Broken,
    Conflict,
    /// The request is lost.
    Lost,
    /// The request has its effect, and no answer comes.
    Unanswered,
    /// The request has its effect, and the connection breaks.
    CutOff,
    /// The right answer comes so many seconds later.
    Late(u64),
}

// === impl Random ===

impl Random {
    /// Objects with small numbers own most others, so that there are trees and not only pairs.
    fn owner(&mut self) -> usize {
        let limit = self.of(&[6, OBJECTS]);
        self.below(limit)
    }

    fn reply(&mut self) -> Reply {
        use Reply::{Broken, Busy, Conflict, CutOff, Late, Lost, Unanswered};
        self.of(&[Busy, Broken, Conflict, Lost, Unanswered, CutOff, Late(3), Late(25)])
    }

    fn step(&mut self) -> Step {
        use {Policy as P, Serving as S, Sort as Q};
        match self.kind(42) {
            0..=9 => Step::Create(self.below(OBJECTS), (!self.one_in(4)).then(|| (self.owner(), self.one_in(2)))),
            10..=12 => Step::Own(self.below(OBJECTS), self.owner(), self.one_in(2)),
            13 => Step::Disown(self.below(OBJECTS)),
            14 => Step::Touch(self.below(OBJECTS)),
            15 => Step::Hold(self.below(OBJECTS)),
            16 => Step::Release(self.below(OBJECTS)),
            17..=22 => Step::Delete(self.owner(), self.of(&[P::Background, P::Foreground, P::Orphan])),
            23 | 24 => Step::Recreate(self.below(6)),
            25..=27 => Step::Serve(self.below(5), self.of(&[S::Works, S::Down, S::Unlistable, S::Missing])),
            28 | 29 => Step::Lag(self.below(KINDS.len()), self.of(&[0, 1, 5, 20])),
            30 => Step::Cut(self.below(KINDS.len())),
            31 => Step::Expire(self.below(KINDS.len())),
            32..=35 => {
                let sort = self.of(&[Q::Reads, Q::Lists, Q::Watches, Q::Deletions, Q::Patches, Q::Discoveries]);
                Step::Trouble(sort, self.reply(), 1 + self.below(4))
            }
            36 | 37 => Step::Kill(self.below(30), self.one_in(2)),
            38 => Step::LoseLease,
            39 => Step::Drop(self.of(&[2, 4])),
            40 => Step::Wipe,
            _ => Step::Jump(self.of(&[-3600, -20, 20, 3600])),
        }
    }

    /// Half of the steps follow at once.
    fn wait(&mut self) -> Option<Step> {
        let wait = self.of(&[0, 0, 0, 0, 1, 7, 40, 300, 1500, 4000, 12_000, 45_000]);
        (wait > 0).then_some(Step::Wait(wait))
    }
}

/// Returns the script of a seed: some objects, and what happens to them.
pub(super) fn script(seed: u64) -> Vec<Step> {
    let mut random = Random::of_seed(seed);
    let objects = 4 + random.below(8);
    let mut steps = Vec::new();
    for object in 0..objects {
        let owner = (object > 0 && !random.one_in(3)).then(|| (random.below(object), random.one_in(2)));
        steps.push(Step::Create(object, owner));
    }
    for _ in 0..10 + random.below(30) {
        steps.extend(random.wait());
        steps.push(random.step());
    }
    steps
}
