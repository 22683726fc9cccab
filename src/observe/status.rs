//! Fields that only a container's own status contains: the images that are mounted as volumes, and the time at which it
//! finished.
//!
//! Mounts never change and an exit is final. So the status is read once for each container and kept by its id as long
//! as the runtime lists it. If a status fails, only the mounts and the exit of its own container are unknown (I13).
//!
//! Only `ContainerStatus` shows image volumes. An image that is only mounted is in use, and its last use must be
//! recorded before the disk is full. EXITED containers have nothing mounted, so their status is not requested. Where
//! a status fails, the images of the pod's spec are kept. If the spec is unknown too, all unused images are kept, and
//! the plan names the container.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt};
use jiff::Timestamp;

use super::needs::Needs;
use crate::cri::{ContainerStatus, RuntimeReader};
use crate::model::{Container, ContainerId, ContainerState, Snapshot};

/// The most calls at the same time.
const AT_ONCE: usize = 16;

/// The statuses so far.
#[derive(Debug, Default)]
pub struct Statuses {
    known: Mutex<HashMap<ContainerId, Known>>,
}

/// The statuses that are unavailable.
#[derive(Debug, Default)]
struct Failed {
    /// Why, for each container that was requested. `None` = the runtime listed the container but has no status of it: it was
    /// removed in between.
    causes: HashMap<ContainerId, Option<String>>,
    /// Why all other statuses were not read.
    rest: Option<String>,
}

#[derive(Clone, Debug)]
struct Known {
    image_volumes: Vec<String>,
    finished_at: Option<Timestamp>,
    exit_code: Option<i32>,
    had_exited: bool,
}

// === impl Statuses ===

impl Statuses {
    /// Reads the unknown statuses and adds them to the snapshot. A container that was removed in between is not
    /// changed: it uses nothing. Without a list of containers there is nothing to read, and the plan removes nothing.
    pub async fn fill(&self, reader: &RuntimeReader, snapshot: &mut Snapshot, needs: Needs) {
        let taken_at = snapshot.taken_at;
        let Some(containers) = snapshot.listed_containers_mut() else { return };
        let failed = self.read(reader, self.lacking(containers, needs)).await;
        let known = self.known();
        for container in containers.iter_mut() {
            if let Some(known) = known.get(&container.id) {
                container.image_volumes.clone_from(&known.image_volumes);
                container.finished_at = known.finished_at;
                container.exit_code = known.exit_code.filter(|_| known.had_exited);
            }
            let cause = failed.cause(&container.id);
            if needs.ends && cause.is_some() && lacks_end(&known, container) {
                container.finished_at = Some(taken_at);
            }
            if needs.image_volumes {
                container.image_volumes_unknown = cause.filter(|_| lacks_volumes(&known, container));
            }
        }
    }

    /// Drops the containers that are no longer listed, and returns those whose status is needed.
    fn lacking(&self, containers: &[Container], needs: Needs) -> Vec<ContainerId> {
        let listed: HashSet<&ContainerId> = containers.iter().map(|container| &container.id).collect();
        let mut known = self.known();
        known.retain(|id, _| listed.contains(id));
        containers
            .iter()
            .filter(|container| {
                (needs.ends && lacks_end(&known, container))
                    || (needs.image_volumes && lacks_volumes(&known, container))
            })
            .map(|container| container.id.clone())
            .collect()
    }

    /// Reads statuses, some at the same time, and continues after a failure. A runtime that hangs or is unreachable
    /// ends this: each further call would cost a deadline for the same error. Earlier results are kept.
    async fn read(&self, reader: &RuntimeReader, ids: Vec<ContainerId>) -> Failed {
        let calls = stream::iter(ids).map(|id| async move { (reader.container_status(&id).await, id) });
        let mut answers = pin!(calls.buffer_unordered(AT_ONCE));
        let mut failed = Failed::default();
        while let Some((answer, id)) = answers.next().await {
            match answer {
                Ok(Some(status)) => self.learn(status),
                Ok(None) => drop(failed.causes.insert(id, None)),
                Err(error) if error.is_of_runtime() => return Failed { rest: Some(error.to_string()), ..failed },
                Err(error) => drop(failed.causes.insert(id, Some(error.to_string()))),
            }
        }
        failed
    }

    fn learn(&self, status: ContainerStatus) {
        let known = Known {
            image_volumes: status.image_volumes,
            finished_at: status.finished_at,
            exit_code: status.exit_code,
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

// === impl Failed ===

impl Failed {
    /// Returns why the status of a container is unknown that was not read.
    fn cause(&self, id: &ContainerId) -> Option<String> {
        self.causes.get(id).unwrap_or(&self.rest).clone()
    }
}

/// Returns whether it is unknown when a container ended.
fn lacks_end(known: &HashMap<ContainerId, Known>, container: &Container) -> bool {
    container.state == ContainerState::Exited && !known.get(&container.id).is_some_and(|known| known.had_exited)
}

/// Returns whether the images are unknown that a container has mounted. An EXITED one has none; an UNKNOWN one may run.
fn lacks_volumes(known: &HashMap<ContainerId, Known>, container: &Container) -> bool {
    container.state != ContainerState::Exited && !known.contains_key(&container.id)
}
