//! Fields that only a container's own status contains: the images that are mounted as volumes, and the time at which it
//! finished.
//!
//! Mounts never change and an exit is final. So the status is read once for each container and kept by its id as long
//! as the runtime lists it. If a status fails, only the mounts and the exit of its own container are unknown (I13).

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt};
use jiff::Timestamp;

use crate::cri::{ContainerStatus, CriError, RuntimeReader};
use crate::model::{Container, ContainerId, ContainerState, Snapshot};

/// The most calls at the same time.
const AT_ONCE: usize = 16;

/// The purpose of the statuses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StatusFor {
    /// The image volumes of every container that may have some mounted (I6): all except EXITED ones. If a status fails,
    /// the container records that they are unknown.
    ImageVolumes,
    /// The exit time of every exited container, from which its age counts. If it is unavailable, the container counts
    /// as finished at the snapshot's time. It finished then at the latest, so it never counts as older than it is.
    Ends,
}

/// The statuses so far.
#[derive(Debug, Default)]
pub struct Statuses {
    known: Mutex<HashMap<ContainerId, Known>>,
}

/// The statuses that are unavailable.
#[derive(Debug, Default)]
struct Failed {
    causes: HashMap<ContainerId, String>,
    /// Containers that the runtime listed but has no status of: they were removed in between.
    gone: HashSet<ContainerId>,
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
    pub async fn fill(&self, reader: &RuntimeReader, snapshot: &mut Snapshot, what: StatusFor) {
        let taken_at = snapshot.taken_at;
        let Some(containers) = snapshot.listed_containers_mut() else { return };
        let failed = self.ask(reader, self.lacking(containers, what)).await;
        let known = self.known();
        for container in containers.iter_mut() {
            if let Some(known) = known.get(&container.id) {
                container.image_volumes.clone_from(&known.image_volumes);
                container.finished_at = known.finished_at;
                container.exit_code = known.exit_code.filter(|_| known.had_exited);
            }
            let cause = failed.cause(&container.id).filter(|_| !has(&known, container, what));
            match what {
                StatusFor::ImageVolumes => container.image_volumes_unknown = cause,
                StatusFor::Ends if cause.is_some() => container.finished_at = Some(taken_at),
                StatusFor::Ends => {}
            }
        }
    }

    /// Drops the containers that are no longer listed, and returns those whose status is needed.
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

    /// Reads statuses, some at the same time, and continues after a failure. A runtime that hangs or is unreachable
    /// ends this: each further call would cost a deadline for the same error. Earlier results are kept.
    async fn ask(&self, reader: &RuntimeReader, ids: Vec<ContainerId>) -> Failed {
        let calls = stream::iter(ids).map(|id| async move { (reader.container_status(&id).await, id) });
        let mut answers = pin!(calls.buffer_unordered(AT_ONCE));
        let mut failed = Failed::default();
        while let Some((answer, id)) = answers.next().await {
            match answer {
                Ok(status) => self.learn(&mut failed, id, status),
                Err(error) if error.is_of_runtime() => return failed.all(error.to_string()),
                Err(error) => failed.add(id, &error),
            }
        }
        failed
    }

    fn learn(&self, failed: &mut Failed, id: ContainerId, status: Option<ContainerStatus>) {
        let Some(status) = status else {
            failed.gone.insert(id);
            return;
        };
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
    fn add(&mut self, id: ContainerId, error: &CriError) {
        self.causes.insert(id, error.to_string());
    }

    fn all(self, cause: String) -> Self {
        Self { rest: Some(cause), ..self }
    }

    /// Returns why the requested status of a container is unknown.
    fn cause(&self, id: &ContainerId) -> Option<String> {
        self.causes.get(id).or(self.rest.as_ref()).filter(|_| !self.gone.contains(id)).cloned()
    }
}

/// Returns whether a container needs no status. An EXITED one has nothing mounted; an UNKNOWN one may run.
fn has(known: &HashMap<ContainerId, Known>, container: &Container, what: StatusFor) -> bool {
    let known = known.get(&container.id);
    match what {
        StatusFor::ImageVolumes => container.state == ContainerState::Exited || known.is_some(),
        StatusFor::Ends => container.state != ContainerState::Exited || known.is_some_and(|known| known.had_exited),
    }
}
