//! One fact that is wrong in every item of an answer, and looks valid by itself.

use super::sim_node::NOON;
use crate::cri::generated as pb;
use crate::cri::generated::containerd::{containers, content, images, leases, namespaces, snapshots};

/// A fact and its wrong value.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum WrongFact {
    /// Every creation time is 0, as of containerd with an empty status file.
    CreatedIn1970,
    /// Every creation time is the noon before the node's initial time, so that everything looks old.
    CreatedAtOnce,
    /// Every creation time is 74 hours later. What is younger than 50 hours lies a day or more in the future.
    CreatedInFuture,
    /// The attempt numbers count down, so the newest object has the lowest one.
    AttemptsReversed,
    /// Every path is empty.
    EmptyPath,
    /// Every path lacks its first slash.
    RelativePath,
}

/// An item with facts that can be wrong.
pub(super) trait Facts {
    fn created_at(&mut self) -> Option<&mut i64> {
        None
    }

    fn attempt(&mut self) -> Option<&mut u32> {
        None
    }

    fn path(&mut self) -> Option<&mut String> {
        None
    }

    /// Sets the wrong value, if the item has the fact.
    fn falsify(&mut self, wrong: WrongFact) {
        match wrong {
            WrongFact::CreatedIn1970 => set(self.created_at(), |_| 0),
            WrongFact::CreatedAtOnce => set(self.created_at(), |_| (NOON - DAY_SECONDS) * SECOND),
            WrongFact::CreatedInFuture => set(self.created_at(), |at| at.saturating_add(74 * 3600 * SECOND)),
            WrongFact::AttemptsReversed => set(self.attempt(), |attempt| u32::MAX - *attempt),
            WrongFact::EmptyPath => set(self.path(), |_| String::new()),
            WrongFact::RelativePath => set(self.path(), |path| path.trim_start_matches('/').to_owned()),
        }
    }
}

const SECOND: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

fn set<T>(fact: Option<&mut T>, wrong: impl FnOnce(&T) -> T) {
    if let Some(fact) = fact {
        *fact = wrong(fact);
    }
}

// === impl Facts ===

macro_rules! created {
    ($($message:ty),* $(,)?) => {
        $(impl Facts for $message {
            fn created_at(&mut self) -> Option<&mut i64> {
                Some(&mut self.created_at)
            }

            fn attempt(&mut self) -> Option<&mut u32> {
                self.metadata.as_mut().map(|metadata| &mut metadata.attempt)
            }
        })*
    };
}

created!(pb::Container, pb::PodSandbox);

impl Facts for pb::ContainerStatus {
    fn created_at(&mut self) -> Option<&mut i64> {
        Some(&mut self.created_at)
    }

    fn attempt(&mut self) -> Option<&mut u32> {
        self.metadata.as_mut().map(|metadata| &mut metadata.attempt)
    }

    fn path(&mut self) -> Option<&mut String> {
        Some(&mut self.log_path)
    }
}

impl Facts for pb::ContainerStats {
    fn attempt(&mut self) -> Option<&mut u32> {
        self.attributes.as_mut()?.metadata.as_mut().map(|metadata| &mut metadata.attempt)
    }
}

impl Facts for pb::FilesystemUsage {
    fn path(&mut self) -> Option<&mut String> {
        self.fs_id.as_mut().map(|id| &mut id.mountpoint)
    }
}

impl Facts for pb::Image {}

/// The items of containerd's own API have none of these facts.
macro_rules! no_fact {
    ($($message:ty),* $(,)?) => {
        $(impl Facts for $message {})*
    };
}

no_fact!(
    namespaces::Namespace,
    images::Image,
    containers::Container,
    content::Info,
    content::Status,
    snapshots::Info,
    leases::Lease,
);
