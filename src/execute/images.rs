//! Images: the containers are listed again before each, the pods known by then are looked through, and the runtime is asked after each whether it is gone.

use std::collections::BTreeSet;
use std::time::Duration;

use super::done::{Done, ExecuteError};
use super::{Hands, Outcome, Refusal, Run};
use crate::cri::Only;
use crate::model::{Container, ContainerState, Image, ImageId, Pod, PodRef};
use crate::plan::{Action, RemoveReason, is_named};

/// How far the runtime's clock may lag behind the plan's: containers that are younger are asked for their image volumes.
const CLOCK_SLACK: Duration = Duration::from_mins(1);

impl<H: Hands> Run<'_, H> {
    /// Removes an image that nobody uses and that is not pinned (I6). One that was to go for the sake of space stays if
    /// there is enough by now (I9).
    pub(super) async fn image(&mut self, action: &Action, id: &ImageId, tags: &[String]) -> Result<Done, ExecuteError> {
        let before = self.available().await;
        if matches!(action.reason, RemoveReason::Space { .. }) && self.space.is_enough(before) {
            return Ok(Done::of(Outcome::NotNeeded {}));
        }
        let Some(image) = self.exec.reader.image(id.as_str()).await? else { return Ok(Done::gone()) };
        if image.pinned {
            return Ok(Done::refused(Refusal::Pinned));
        }
        if self.is_used(&image, id, tags).await? {
            return Ok(Done::refused(Refusal::InUse));
        }
        if let Some(pod) = self.named_by(&image).await {
            return Ok(Done { note: Some(format!("the pod {pod} names it")), ..Done::refused(Refusal::NamedByPod) });
        }
        self.exec.hands.remove_image(id).await?;
        if H::IS_DRY {
            return Ok(Self::removed(None));
        }
        if self.exec.reader.image(id.as_str()).await?.is_some() {
            return Err(ExecuteError::VerifyImage { id: id.clone() });
        }
        let after = self.available().await;
        Ok(Self::removed(after.zip(before).map(|(after, before)| after.saturating_sub(before))))
    }

    /// Says whether any container in any state uses an image, by any of the names that it has or had.
    async fn is_used(&self, image: &Image, id: &ImageId, tags: &[String]) -> Result<bool, ExecuteError> {
        let ids = [image.id.as_str(), id.as_str()];
        let names = image.tags.iter().chain(&image.digests).chain(tags).map(String::as_str);
        let names: BTreeSet<&str> = ids.into_iter().chain(names).collect();
        let mut containers = self.exec.reader.containers(Only::All).await?;
        containers.retain(|container| !self.noted.containers.contains(&container.id));
        let is_named = |name: &Option<String>| name.as_deref().is_some_and(|name| names.contains(name));
        if containers.iter().any(|container| is_named(&container.image_id) || is_named(&container.image)) {
            return Ok(true);
        }
        for container in containers.iter().filter(|container| self.is_new(container)) {
            if self.mounts(container, image, &names).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The pod that names an image by now, where the source of pods can tell without asking anybody. One that finished
    /// begins nothing any more; whether its image stays the plan has decided.
    async fn named_by(&self, image: &Image) -> Option<PodRef> {
        if !self.exec.options.keeps_pod_images {
            return None;
        }
        let pods = self.exec.pods.known_by_now().await;
        let is_namer = |pod: &Pod| !pod.phase.is_terminal() && pod.images.iter().any(|name| is_named(image, name));
        let Pod { uid, namespace, name, .. } = pods.into_iter().find(is_namer)?;
        Some(PodRef { uid, namespace, name })
    }

    /// Says whether the plan may not have known a container that may have images mounted: an EXITED one has none. The image
    /// volumes of the others it knew, and those never change.
    fn is_new(&self, container: &Container) -> bool {
        if container.state == ContainerState::Exited {
            return false;
        }
        let known = self.plan.taken_at.checked_sub(CLOCK_SLACK).unwrap_or(self.plan.taken_at);
        container.created_at >= known
    }

    /// Says whether a container has an image mounted as a volume. Where its status fails, the spec of its pod tells
    /// which images it may have mounted; an error only where that is not known either.
    async fn mounts(&self, container: &Container, image: &Image, names: &BTreeSet<&str>) -> Result<bool, ExecuteError> {
        match self.exec.reader.container_status(&container.id).await {
            Ok(status) => Ok(status.is_some_and(|status| has_any(&status.image_volumes, names))),
            Err(error) => match self.spec_of(container).await {
                Some(pod) => Ok(pod.images.iter().any(|name| is_named(image, name))),
                None => Err(error.into()),
            },
        }
    }

    /// The pod of a container with the images that its spec names, where the source of pods has it in memory.
    async fn spec_of(&self, container: &Container) -> Option<Pod> {
        let uid = container.pod_uid()?;
        let pods = self.exec.pods.known_by_now().await;
        pods.into_iter().find(|pod| pod.uid == *uid && !pod.images.is_empty())
    }
}

fn has_any(volumes: &[String], names: &BTreeSet<&str>) -> bool {
    volumes.iter().any(|volume| names.contains(volume.as_str()))
}
