//! What only a container's own status tells: the images it has mounted as volumes, and when it ended.
//!
//! Mounts never change and an end is final, so each container is asked once and remembered by its id as long as the
//! runtime lists it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::cri::{ContainerStatus, RuntimeReader};
use crate::model::{Container, ContainerId, ContainerState, Seen, Snapshot};

/// Calls under way at the same time.
const AT_ONCE: usize = 16;

/// What the statuses are asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StatusFor {
    /// The image volumes of every container (I6), before images go. Where one cannot be had, `image_uses` is not seen.
    ImageVolumes,
    /// The end of every exited container, where ages count from it. Where one cannot be had, the container counts as
    /// ended at the snapshot's moment: it ended then at the latest, so it is never taken for older than it is.
    Ends,
}

/// The answers so far.
#[derive(Debug, Default)]
pub struct Statuses {
    known: Mutex<HashMap<ContainerId, Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    image_volumes: Vec<String>,
    finished_at: Option<Timestamp>,
    had_exited: bool,
}

// === impl Statuses ===

impl Statuses {
    /// Asks for what is not known yet and fills it in. A container that is gone meanwhile is left as it is: it uses
    /// nothing any more. Without a list of containers there is nobody to ask about, and the plan removes nothing.
    pub async fn fill(&self, reader: &RuntimeReader, snapshot: &mut Snapshot, what: StatusFor) {
        let Seen::Seen(containers) = &mut snapshot.containers else { return };
        let asked = self.ask(reader, self.lacking(containers, what)).await;
        let known = self.known();
        for container in containers.iter_mut() {
            if let Some(known) = known.get(&container.id) {
                container.image_volumes.clone_from(&known.image_volumes);
                container.finished_at = known.finished_at;
            }
        }
        let Err(cause) = asked else { return };
        match what {
            StatusFor::ImageVolumes => snapshot.image_uses = Seen::NotSeen(cause),
            StatusFor::Ends => {
                for container in containers.iter_mut().filter(|container| !has(&known, container, what)) {
                    container.finished_at = Some(snapshot.taken_at);
                }
            }
        }
    }

    /// Forgets the containers that are gone, and names those to ask about.
    fn lacking(&self, containers: &[Container], what: StatusFor) -> Vec<ContainerId> {
        let listed: HashSet<&ContainerId> = containers.iter().map(|container| &container.id).collect();
        let mut known = self.known();
        known.retain(|id, _| listed.contains(id));
        containers
            .iter()
            .filter(|container| !has(&known, container, what))
            .map(|container| container.id.clone())
            .collect()
    }

    /// Asks, some at once. The first failure ends it: a runtime that hangs would cost a deadline for each container, and
    /// the answer as a whole is lost already. What came before it is kept.
    async fn ask(&self, reader: &RuntimeReader, ids: Vec<ContainerId>) -> Result<(), String> {
        let mut ids = ids.into_iter();
        let mut calls = JoinSet::new();
        loop {
            while calls.len() < AT_ONCE
                && let Some(id) = ids.next()
            {
                let reader = reader.clone();
                calls.spawn(async move { reader.container_status(&id).await });
            }
            match calls.join_next().await {
                None => return Ok(()),
                Some(Ok(answer)) => self.learn(answer.map_err(|error| error.to_string())?),
                Some(Err(broken)) => return Err(broken.to_string()),
            }
        }
    }

    fn learn(&self, status: Option<ContainerStatus>) {
        let Some(status) = status else { return };
        let known = Known {
            image_volumes: status.image_volumes,
            finished_at: status.finished_at,
            had_exited: status.state == ContainerState::Exited,
        };
        self.known().insert(status.id, known);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known().len()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ContainerId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says whether nothing is left to ask about a container.
fn has(known: &HashMap<ContainerId, Known>, container: &Container, what: StatusFor) -> bool {
    let known = known.get(&container.id);
    match what {
        StatusFor::ImageVolumes => known.is_some(),
        StatusFor::Ends => container.state != ContainerState::Exited || known.is_some_and(|known| known.had_exited),
    }
}
