//! Removes sandboxes.

use super::action_result::{Done, ExecuteError};
use super::execution::Run;
use crate::cri::Only;
use crate::model::{SandboxId, SandboxState};
use crate::plan::Refusal;

impl Run<'_> {
    /// Removes a sandbox that is not ready and has no containers (I1). The removal of a sandbox also removes its
    /// containers, so the containers are listed last, right before it.
    pub(super) async fn sandbox(&self, id: &SandboxId) -> Result<Done, ExecuteError> {
        let reader = &self.exec.reader;
        let sandboxes = reader.sandboxes(Only::Sandbox(id.clone())).await?;
        let Some(sandbox) = sandboxes.into_iter().find(|sandbox| sandbox.id == *id) else {
            return Ok(Done::already_removed());
        };
        if sandbox.state == SandboxState::Ready {
            return Ok(Done::refused(Refusal::Ready));
        }
        let containers = reader.containers(Only::Sandbox(id.clone())).await?;
        if containers.iter().any(|container| !self.state().noted.containers.contains(&container.id)) {
            return Ok(Done::refused(Refusal::HasContainers));
        }
        self.exec.remover.remove_sandbox(id).await?;
        if self.exec.remover.is_dry() {
            self.state().noted.sandboxes.insert(id.clone());
        }
        Ok(self.removed(None))
    }
}
