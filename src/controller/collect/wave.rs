//! One wave of a collection: all objects are decided about as they are before the wave, so the result does not depend on
//! the order of calls, and equals the prediction of `plan`.
//!
//! A change is made at once if no decision that is still to come in this wave can see it: none reads the object as an
//! owner then. So garbage goes from the first second on, however many objects are to be checked. The other changes follow
//! when all is decided, and releases of dependents come last, so that a dependent that is to be deleted is not released.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, FuturesUnordered};

use super::super::settings::WORKERS;
use crate::controller::work::decision::Decision;
use crate::controller::work::engine::{Engine, Key};
use crate::model::Uid;
use crate::owners::{VALID, Verdict};

/// After so many failures of an object the others do not wait for it any longer: about 2.5 s.
const FAILURES: u32 = 9;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WaveEnd {
    /// Nothing is left to do.
    Idle,
    /// Something was decided.
    Worked,
    /// The limit on changed objects is reached.
    Exhausted,
    /// The time is up, or a signal came. The calls in flight have ended.
    Interrupted,
}

pub(super) struct Wave<'a> {
    engine: &'a Engine,
    decided: Mutex<Decided>,
}

#[derive(Default)]
struct Decided {
    /// The keys that were decided about: each is once in a wave.
    keys: HashSet<Key>,
    /// The decisions that wait for the others, and when they were made.
    deferred: Vec<(Duration, Key, Decision)>,
    /// How many of them count for the limit on changed objects.
    counted: usize,
    /// The keys that came again. They belong to the next wave.
    postponed: Vec<Key>,
}

// === impl Wave ===

impl<'a> Wave<'a> {
    /// Decides and changes until the queue is settled.
    pub(super) async fn run(engine: &'a Engine) -> WaveEnd {
        let wave = Self { engine, decided: Mutex::default() };
        let is_full = wave.settle().await;
        if engine.calls.end.is_cancelled() {
            return WaveEnd::Interrupted;
        }
        let is_idle = wave.decided().keys.is_empty();
        wave.end().await;
        match (is_full, is_idle) {
            (true, _) => WaveEnd::Exhausted,
            (false, true) => WaveEnd::Idle,
            (false, false) => WaveEnd::Worked,
        }
    }

    /// Works until the queue is settled, the end comes, or the limit on changed objects is reached; then it returns true.
    async fn settle(&self) -> bool {
        let Self { engine, .. } = self;
        // Not `join_all`, which polls all of them at each answer.
        let workers: FuturesUnordered<_> = (0..WORKERS).map(|_| self.work()).collect();
        let mut workers = std::pin::pin!(workers.collect::<()>());
        tokio::select! {
            () = &mut workers => !engine.calls.end.is_cancelled(),
            () = engine.queue.settled(FAILURES) => false,
            () = engine.calls.end.cancelled() => {
                engine.queue.close();
                workers.await;
                false
            }
        }
    }

    async fn work(&self) {
        let Self { engine, .. } = self;
        while !self.closes_when_full() {
            let Some(key) = engine.queue.next().await else { return };
            if self.postpones(&key) {
                continue;
            }
            // Reads may be broken off, and changes may not.
            let decision = tokio::select! {
                decision = engine.decide(&key) => decision,
                () = engine.calls.end.cancelled() => return,
            };
            if let Some(decision) = decision {
                self.act_or_defer(key, decision).await;
            }
        }
    }

    /// Ends the queue if what was decided reaches the limit on changed objects.
    fn closes_when_full(&self) -> bool {
        let is_full = self.engine.is_exhausted_after(self.decided().counted);
        if is_full {
            self.engine.queue.close();
        }
        is_full
    }

    /// Keeps a key for the next wave that was decided about in this one.
    fn postpones(&self, key: &Key) -> bool {
        let is_known = {
            let mut decided = self.decided();
            let is_known = decided.keys.contains(&once(key));
            if is_known {
                decided.postponed.push(key.clone());
            }
            is_known
        };
        if is_known {
            self.engine.queue.pause(key);
        }
        is_known
    }

    async fn act_or_defer(&self, key: Key, decision: Decision) {
        let Self { engine, .. } = self;
        if self.is_seen_by_none(&decision) {
            if engine.carry_out(&key, decision).await {
                self.decided().keys.insert(once(&key));
            }
            return;
        }
        {
            let mut decided = self.decided();
            decided.keys.insert(once(&key));
            decided.counted += usize::from(counts(&decision));
            decided.deferred.push((engine.now(), key.clone(), decision));
        }
        engine.queue.pause(&key);
    }

    /// Returns whether no decision that is still to come in this wave depends on a change: only its dependents read an
    /// object as an owner, and one of them is checked in this wave only if it waits for that, or another owner of it does.
    fn is_seen_by_none(&self, decision: &Decision) -> bool {
        let uid = match decision {
            Decision::Change(_, Verdict::DropReferences(_)) => return true,
            Decision::Change(checked, Verdict::Delete { .. } | Verdict::EndForeground) | Decision::AsShown(checked) => {
                &checked.item.identity.uid
            }
            Decision::Change(..) | Decision::Next(_) | Decision::Release(_) => return false,
        };
        let Engine { queue, .. } = self.engine;
        let is_pending = |uid: &Uid| {
            let keys = [Key::Check(uid.clone()), Key::Verify(uid.clone())];
            keys.iter().any(|key| queue.is_pending(key, FAILURES))
        };
        !self.engine.state().graph.any_relative(uid, is_pending)
    }

    /// Carries out what was deferred, and shows the graph what the wave has changed.
    async fn end(self) {
        let Decided { deferred, mut postponed, .. } = self.decided.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_release = |(_, _, decision): &(_, _, Decision)| matches!(decision, Decision::Release(_));
        let (releases, changes): (Vec<_>, Vec<_>) = deferred.into_iter().partition(is_release);
        postponed.extend(carry_out(self.engine, changes).await);
        postponed.extend(carry_out(self.engine, releases).await);
        self.engine.end_wave();
        for key in postponed {
            self.engine.add(key);
        }
    }

    fn decided(&self) -> MutexGuard<'_, Decided> {
        // No code panics while it holds the lock.
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out decisions, and returns the keys of those that are too old: what they read proves nothing any more (G1).
async fn carry_out(engine: &Engine, decisions: Vec<(Duration, Key, Decision)>) -> Vec<Key> {
    let changes = decisions.into_iter().map(|(at, key, decision)| async move {
        let is_release = matches!(decision, Decision::Release(_));
        if !is_release && engine.now().saturating_sub(at) > VALID {
            return Some(key);
        }
        engine.carry_out(&key, decision).await;
        None
    });
    stream::iter(changes).buffer_unordered(WORKERS).filter_map(std::future::ready).collect().await
}

/// The two keys of a check are one.
fn once(key: &Key) -> Key {
    match key {
        Key::Check(uid) | Key::Verify(uid) => Key::Check(uid.clone()),
        Key::Orphan(uid) => Key::Orphan(uid.clone()),
    }
}

/// Returns whether a decision counts for the limit on changed objects.
fn counts(decision: &Decision) -> bool {
    match decision {
        Decision::Next(_) => false,
        Decision::Release(_) | Decision::AsShown(_) => true,
        Decision::Change(_, verdict) => {
            !matches!(verdict, Verdict::Keep(_) | Verdict::WaitForDependents(_) | Verdict::Orphan(_))
        }
    }
}
