//! What happens to a node, as data: the steps of a life, made from a seed. A step that makes no sense when its turn comes does
//! nothing, so that any part of a script is a script.

use crate::testing::lives::Random;

/// The pods of a life by number, each with one uid after the other, and the images.
pub(super) const PODS: usize = 6;
pub(super) const IMAGES: usize = 6;

/// What happens. Pods and images are numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing, for so many seconds. Then the kubelet looks at its pods.
    Wait(u64),
    /// A pod is bound to the node, with this image.
    Bind(usize, usize),
    /// A pod that was deleted comes again with its uid, as static pods do.
    Return(usize),
    /// Its container exits, and the kubelet runs it again.
    Crash(usize),
    /// Its sandbox ends, and the kubelet makes another one.
    Restart(usize),
    /// Its container exits for ever.
    Finish(usize),
    /// It leaves the API server, and then the kubelet ends it.
    Delete(usize),
    /// The kubelet creates a container that is not started, or starts it.
    Create(usize),
    Start(usize),
    Pull(usize),
    /// The name of an image moves to a new one.
    Retag(usize),
    /// The kubelet stops, or works again.
    Kubelet(bool),
    /// The kubelet removes dead containers and sandboxes too.
    Collect,
    /// Other data has so many gibibytes of the disk.
    Fill(u64),
    Api(Api),
    /// So many calls of this sort are answered like this.
    Trouble(Sort, Reply, usize),
    /// The agent is killed at this call from now on, which has an effect or not, and started again.
    Kill(usize, bool),
    /// The agent gets other settings.
    Reload(usize),
    /// `kubegc pause`, or `kubegc resume`.
    Pause(bool),
    /// The wall clock jumps by so many seconds.
    Jump(i64),
}

/// How the API server shows pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Api {
    #[default]
    Works,
    Down,
    /// Its lists may lack pods, and say so.
    Incomplete,
    /// Its lists are those of now for ever.
    Stale,
    /// Its lists and lookups lack this pod.
    Omits(usize),
}

/// A sort of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sort {
    Lists,
    Reads,
    Removals,
}

/// An answer of the runtime that is not the right one, or not at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reply {
    Fails,
    Hangs,
    /// The call has an effect, and no answer comes.
    Unanswered,
    /// The call has its effect so many seconds later.
    Slow(u64),
    /// The answer comes so many seconds later.
    Late(u64),
}

// === impl Random ===

impl Random {
    fn node_step(&mut self) -> Step {
        use {Reply as R, Sort as S, Step as T};
        match self.kind(46) {
            0..=6 => T::Bind(self.below(PODS), self.below(IMAGES)),
            7 | 8 => T::Return(self.below(PODS)),
            9..=12 => T::Crash(self.below(PODS)),
            13 | 14 => T::Restart(self.below(PODS)),
            15 | 16 => T::Finish(self.below(PODS)),
            17..=21 => T::Delete(self.below(PODS)),
            22 => T::Create(self.below(PODS)),
            23 => T::Start(self.below(PODS)),
            24 | 25 => T::Pull(self.below(IMAGES)),
            26 => T::Retag(self.below(IMAGES)),
            27 => T::Kubelet(self.one_in(2)),
            28 => T::Collect,
            29..=31 => T::Fill(self.of(&[40, 60, 75, 80, 84])),
            32..=34 => {
                let pod = self.below(PODS);
                T::Api(self.of(&[Api::Works, Api::Works, Api::Down, Api::Incomplete, Api::Stale, Api::Omits(pod)]))
            }
            35..=38 => {
                let reply = self.of(&[R::Fails, R::Hangs, R::Unanswered, R::Slow(20), R::Late(7), R::Late(40)]);
                T::Trouble(self.of(&[S::Lists, S::Reads, S::Removals, S::Removals]), reply, 1 + self.below(4))
            }
            39 | 40 => T::Kill(self.below(40), self.one_in(2)),
            41 => T::Reload(self.below(4)),
            42..=44 => T::Pause(self.one_in(2)),
            _ => T::Jump(self.of(&[-3600, -20, 20, 3600, 700_000])),
        }
    }
}

/// Returns whether the archive of logs is on in a whole life, and nothing may remove from it: no other settings, no full disk, no clock.
pub(super) fn archives(steps: &[Step]) -> bool {
    steps.first() == Some(&Step::Reload(1)) && !steps[1..].iter().any(removes_lines)
}

/// Returns the script of a seed. Each third life archives.
pub(super) fn script(seed: u64) -> Vec<Step> {
    let mut random = Random::of_seed(seed);
    let mut steps = vec![Step::Bind(0, 0), Step::Bind(1, 1), Step::Wait(1)];
    for _ in 0..20 + random.below(40) {
        let wait = random.of(&[0, 0, 1, 5, 30, 65, 70, 130, 310]);
        steps.extend((wait > 0).then_some(Step::Wait(wait)));
        steps.push(random.node_step());
    }
    if seed % 3 == 1 {
        steps.retain(|step| !removes_lines(step));
        steps.insert(0, Step::Reload(1));
    }
    steps
}

fn removes_lines(step: &Step) -> bool {
    matches!(step, Step::Reload(_) | Step::Fill(_) | Step::Jump(_))
}
