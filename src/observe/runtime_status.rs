//! Fields that only a container's own status contains: the images that are mounted as volumes, and the time at which it
//! finished.
//!
//! Mounts never change and an exit is final. So the status is read once for each container. The mounts are in the memory,
//! by the id of the container, as long as the runtime lists it: a command has those that the service read. The ends are
//! kept here. If a status fails, only the mounts and the exit of its own container are unknown (I13).
//!
//! Only `ContainerStatus` shows image volumes. An image that is only mounted is in use, and its last use must be
//! recorded before the disk is full. EXITED containers have nothing mounted, so their status is not requested. Where
//! a status fails, the images of the pod's spec are kept. If the spec is unknown too, all unused images are kept, and
//! the plan names the container.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt};
use jiff::Timestamp;

use super::needs::{Needs, Part};
use crate::cri::{ContainerStatus, RuntimeReader};
use crate::model::{Container, ContainerId, ContainerState, ImageVolumes, Snapshot};

/// The most calls at the same time.
const AT_ONCE: usize = 8;

/// How containers ended, so far.
#[derive(Debug, Default)]
pub struct Statuses {
    ends: Mutex<HashMap<ContainerId, End>>,
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
struct End {
    finished_at: Option<Timestamp>,
    exit_code: Option<i32>,
    reason: Option<String>,
}

// === impl Statuses ===

impl Statuses {
    /// Reads the unknown statuses, and adds them to the snapshot. A container that was removed in between is
    /// not changed: it uses nothing. Without a list of containers there is nothing to read, and the plan removes nothing.
    pub async fn fill(&self, reader: &RuntimeReader, snapshot: &mut Snapshot, needs: &Needs) {
        let taken_at = snapshot.taken_at;
        let mut volumes = Arc::clone(snapshot.image_volumes.as_ref().unwrap_or(&snapshot.memory.image_volumes));
        let Some(containers) = snapshot.listed_containers_mut() else { return };
        self.forget_unlisted(containers, &mut volumes);
        let failed = self.read(reader, self.lacking(containers, &volumes, needs), &mut volumes).await;
        let ends = self.ends();
        for container in containers.iter_mut() {
            if let Some(images) = volumes.get(&container.id) {
                container.image_volumes.clone_from(images);
            }
            if let Some(End { finished_at, exit_code, reason }) = ends.get(&container.id) {
                (container.finished_at, container.exit_code) = (*finished_at, *exit_code);
                container.exit_reason.clone_from(reason);
            }
            let cause = failed.cause(&container.id);
            if needs.contains(&Part::Ends) && cause.is_some() && lacks_end(&ends, container) {
                container.finished_at = Some(taken_at);
            }
            if needs.contains(&Part::ImageVolumes) {
                container.image_volumes_unknown = cause.filter(|_| lacks_volumes(&volumes, container));
            }
        }
        drop(ends);
        snapshot.image_volumes = Some(volumes);
    }

    /// Drops the containers that are no longer listed.
    fn forget_unlisted(&self, containers: &[Container], volumes: &mut Arc<ImageVolumes>) {
        let listed: HashSet<&ContainerId> = containers.iter().map(|container| &container.id).collect();
        self.ends().retain(|id, _| listed.contains(id));
        if volumes.keys().any(|id| !listed.contains(id)) {
            Arc::make_mut(volumes).retain(|id, _| listed.contains(id));
        }
    }

    /// Returns the containers whose status is needed.
    fn lacking(&self, containers: &[Container], volumes: &ImageVolumes, needs: &Needs) -> Vec<ContainerId> {
        let (ends, needs_ends, needs_volumes) =
            (self.ends(), needs.contains(&Part::Ends), needs.contains(&Part::ImageVolumes));
        let is_lacking = |container: &&Container| {
            (needs_ends && lacks_end(&ends, container)) || (needs_volumes && lacks_volumes(volumes, container))
        };
        containers.iter().filter(is_lacking).map(|container| container.id.clone()).collect()
    }

    /// Reads statuses, some at the same time, and continues after a failure. A runtime that hangs or is unreachable
    /// ends this: each further call would cost a deadline for the same error. Earlier results are kept.
    async fn read(&self, reader: &RuntimeReader, ids: Vec<ContainerId>, volumes: &mut Arc<ImageVolumes>) -> Failed {
        let calls = stream::iter(ids).map(|id| async move { (reader.container_status(&id).await, id) });
        let mut answers = pin!(calls.buffer_unordered(AT_ONCE));
        let mut failed = Failed::default();
        while let Some((answer, id)) = answers.next().await {
            match answer {
                Ok(Some(status)) => self.learn(status, Arc::make_mut(volumes)),
                Ok(None) => drop(failed.causes.insert(id, None)),
                Err(error) if error.is_of_runtime() => return Failed { rest: Some(error.to_string()), ..failed },
                Err(error) => drop(failed.causes.insert(id, Some(error.to_string()))),
            }
        }
        failed
    }

    fn learn(&self, status: ContainerStatus, volumes: &mut ImageVolumes) {
        if status.state == ContainerState::Exited {
            let ContainerStatus { finished_at, exit_code, exit_reason: reason, .. } = status;
            self.ends().insert(status.id, End { finished_at, exit_code, reason });
        } else {
            volumes.insert(status.id, status.image_volumes);
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.ends().len()
    }

    fn ends(&self) -> MutexGuard<'_, HashMap<ContainerId, End>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
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
fn lacks_end(ends: &HashMap<ContainerId, End>, container: &Container) -> bool {
    container.state == ContainerState::Exited && !ends.contains_key(&container.id)
}

/// Returns whether the images are unknown that a container has mounted. An EXITED one has none; an UNKNOWN one may run.
fn lacks_volumes(volumes: &ImageVolumes, container: &Container) -> bool {
    container.state != ContainerState::Exited && !volumes.contains_key(&container.id)
}
