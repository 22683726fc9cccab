//! Removes images. Before each removal, kubegc lists the containers again and checks the known pods. After it, kubegc
//! verifies that the runtime no longer has the image.
//!
//! If one image of a set is not removed, the rest of the set is kept: it would reclaim nothing.

use std::time::Duration;

use jiff::Timestamp;

use super::ExecuteOptions;
use super::action_result::{Done, ExecuteError};
use super::execution::Run;
use crate::cri::{Only, UndoLease};
use crate::model::{Container, ContainerState, Image, ImageId, Pod, PodRef, UNDO_LEASES};
use crate::observe::has_pull_record;
use crate::plan::{Action, Outcome, Refusal};

/// How far the runtime's clock may be behind the plan's. Containers created after the plan's time minus this slack are
/// checked for image volumes.
const CLOCK_SLACK: Duration = Duration::from_mins(1);

/// The most names of an artifact that one pass removes.
const MOST_NAMES: usize = 16;

impl Run<'_> {
    /// Removes an image that is unused and not pinned (I6). An image planned for space is kept if enough space is free
    /// by then (I9).
    pub(super) async fn image(&self, action: &Action, id: &ImageId, tags: &[String]) -> Result<Done, ExecuteError> {
        let before = self.space.measure(self.exec).await;
        let set = self.set_of(id);
        match set.and_then(|set| self.state().sets.get(&set).copied()) {
            Some(false) => return Ok(Done::refused(Refusal::SetIncomplete)),
            // With an image of the set removed, it is needed in any case: that removal has reclaimed nothing yet.
            None if action.reason.is_for_space() && self.space.is_enough(before.as_ref()) => {
                return Ok(Done::of(Outcome::NotNeeded {}));
            }
            _ => {}
        }
        let done = self.unused_image(action, id, tags, before.map(|disk| disk.available_bytes)).await;
        if let Some(set) = set {
            let is_removed = done.as_ref().is_ok_and(|done| done.outcome.is_removal());
            self.state().sets.insert(set, is_removed);
        }
        done
    }

    /// Returns the set of images that reclaim something only together, by its position in the plan.
    fn set_of(&self, id: &ImageId) -> Option<usize> {
        self.plan.images.together.iter().position(|set| set.contains(id))
    }

    async fn unused_image(
        &self,
        action: &Action,
        id: &ImageId,
        tags: &[String],
        before: Option<u64>,
    ) -> Result<Done, ExecuteError> {
        let Some(image) = self.present(id, tags).await? else { return Ok(Done::already_removed()) };
        if image.id != *id {
            let note = Some(format!("its id was {id}, and is {} now", image.id));
            return Ok(Done { note, ..Done::refused(Refusal::StateChanged) });
        }
        if image.pinned {
            return Ok(Done::refused(Refusal::Pinned));
        }
        if self.is_used(&image, tags).await? {
            return Ok(Done::refused(Refusal::InUse));
        }
        if let Some(pod) = self.named_by(&image).await {
            return Ok(Done { note: Some(format!("the pod {pod} names it")), ..Done::refused(Refusal::NamedByPod) });
        }
        let lease = self.keep_for_undo(action, &image).await?;
        let removed = self.remove_all_names(image, tags).await;
        if let Some(lease) = lease.as_ref().filter(|_| !matches!(removed, Ok(true))) {
            let _ = self.exec.remover.delete_lease(&lease.name, false).await; // it ends by itself
        }
        if !removed? {
            return Err(ExecuteError::StillListed { id: id.to_string() });
        }
        if self.exec.remover.is_dry() {
            return Ok(self.removed(None));
        }
        if let Some(lease) = lease {
            let note = Some(format!("kept for undo until {:.0}", lease.expires_at));
            return Ok(Done { note, kept_until: Some(lease.expires_at), ..self.removed(Some(0)) });
        }
        let freed = match before {
            Some(before) => self.space.reclaimed(self.exec, before, self.expected(action)).await,
            None => None,
        };
        Ok(self.removed(freed))
    }

    /// Takes a lease on the content of an image, unless its space is needed; `None` = none was taken, or the runtime has no leases.
    async fn keep_for_undo(&self, action: &Action, image: &Image) -> Result<Option<UndoLease>, ExecuteError> {
        let undo = self.exec.options.undo;
        if undo.is_zero() || !action.reason.can_be_undone() || self.plan.needs_space() {
            return Ok(None);
        }
        let pass = self.plan.taken_at;
        let expires_at = pass.saturating_add(undo).unwrap_or(Timestamp::MAX);
        let ExecuteOptions { kubelet_root, .. } = &self.exec.options;
        let has_pull_record = has_pull_record(&self.exec.roots.host, kubelet_root, image).await.unwrap_or(true);
        match self.exec.remover.keep_for_undo(image, pass, expires_at, has_pull_record).await {
            Err(error) if error.is_unimplemented() => Ok(None),
            lease => Ok(lease?),
        }
    }

    /// Deletes a lease on a removed image, unless enough space is free by now. containerd removes what only the lease kept.
    pub(super) async fn undo_lease(&self, action: &Action, name: &str) -> Result<Done, ExecuteError> {
        if !name.starts_with(UNDO_LEASES) {
            return Ok(Done::refused(Refusal::ForeignPath));
        }
        let before = self.space.measure(self.exec).await;
        if action.reason.is_for_space() && self.space.is_enough(before.as_ref()) {
            return Ok(Done::of(Outcome::NotNeeded {}));
        }
        self.exec.remover.delete_lease(name, true).await?;
        let freed = match before.filter(|_| !self.exec.remover.is_dry()) {
            Some(before) => self.space.reclaimed(self.exec, before.available_bytes, self.expected(action)).await,
            None => None,
        };
        Ok(self.removed(freed))
    }

    /// Returns an image by its id, or else by a name that it had in the plan: CRI-O does not find an artifact by its id if it has
    /// several names.
    async fn present(&self, id: &ImageId, tags: &[String]) -> Result<Option<Image>, ExecuteError> {
        let mut found = self.exec.reader.image(id.as_str()).await?;
        for tag in tags {
            if found.is_none() {
                found = self.exec.reader.image(tag).await?.filter(|image| image.id == *id && image.is_artifact());
            }
        }
        Ok(found)
    }

    /// Removes an image, and returns whether the runtime does not have it any more. CRI-O removes one name of an artifact with each
    /// call.
    async fn remove_all_names(&self, mut image: Image, tags: &[String]) -> Result<bool, ExecuteError> {
        for _ in 0..MOST_NAMES {
            self.exec.remover.remove_image(&image).await?;
            if self.exec.remover.is_dry() {
                return Ok(true);
            }
            let tags = if image.is_artifact() { tags } else { &[] };
            match self.present(&image.id, tags).await? {
                None => return Ok(true),
                Some(left) if left.is_artifact() && left.id == image.id => image = left,
                Some(_) => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Returns the estimate, if it is one for this removal alone and not the size that the runtime reports.
    fn expected(&self, action: &Action) -> Option<u64> {
        action.bytes().filter(|_| self.plan.images.knows_store)
    }

    /// Returns whether any container in any state uses an image, by any of its names now or in the plan.
    async fn is_used(&self, image: &Image, tags: &[String]) -> Result<bool, ExecuteError> {
        let tags = image.tags.iter().chain(tags).cloned().collect();
        let image = Image { tags, ..image.clone() };
        let mut containers = self.exec.reader.containers(Only::All).await?;
        containers.retain(|container| !self.state().noted.containers.contains(&container.id));
        let is_this = |name: &Option<String>| name.as_deref().is_some_and(|name| image.is_named(name));
        if containers.iter().any(|container| is_this(&container.image_id) || is_this(&container.image)) {
            return Ok(true);
        }
        for container in containers.iter().filter(|container| self.is_new(container)) {
            if self.mounts(container, &image).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a pod that names an image by now, if the pod source has the pod in memory. Terminated pods do not count:
    /// they start no more containers, and the plan already decided about their images.
    async fn named_by(&self, image: &Image) -> Option<PodRef> {
        if !self.exec.options.keeps_pod_images {
            return None;
        }
        for pod in self.exec.pods.cached_pods().await.into_iter().filter(|pod| !pod.phase.is_terminal()) {
            if self.names(&pod, image).await {
                let Pod { uid, namespace, name, .. } = pod;
                return Some(PodRef { uid, namespace, name });
            }
        }
        None
    }

    /// Returns whether a pod names an image: by the text of the name, or by the id to which the runtime resolves it. If
    /// a name cannot be resolved, it may mean any image with the same last path component.
    async fn names(&self, pod: &Pod, image: &Image) -> bool {
        for name in &pod.images {
            let is_meant = match self.exec.image_names.id_of(&self.exec.reader, name).await {
                Ok(id) => id.as_ref() == Some(&image.id),
                Err(_) => image.may_be_named(name),
            };
            if is_meant || image.is_named(name) {
                return true;
            }
        }
        false
    }

    /// Returns whether a container may have image volumes that the plan did not include. An exited container has no
    /// mounts. The plan included the image volumes of older containers, and those never change.
    fn is_new(&self, container: &Container) -> bool {
        if container.state == ContainerState::Exited {
            return false;
        }
        let known = self.plan.taken_at.checked_sub(CLOCK_SLACK).unwrap_or(self.plan.taken_at);
        container.created_at >= known
    }

    /// Returns whether a container mounts an image as a volume. If the container status fails, the spec of its pod
    /// lists the images that it may mount. If that spec is unknown too, this is an error.
    async fn mounts(&self, container: &Container, image: &Image) -> Result<bool, ExecuteError> {
        let is_meant = |name: &String| image.is_named(name);
        match self.exec.reader.container_status(&container.id).await {
            Ok(status) => Ok(status.is_some_and(|status| status.image_volumes.iter().any(is_meant))),
            Err(error) => match self.spec_of(container).await {
                Some(pod) => Ok(pod.images.iter().any(is_meant)),
                None => Err(error.into()),
            },
        }
    }

    /// Returns the pod of a container with the images that its spec names, if the pod source has it in memory.
    async fn spec_of(&self, container: &Container) -> Option<Pod> {
        let of = container.pod.as_ref()?;
        let pods = self.exec.pods.cached_pods().await;
        pods.into_iter().find(|pod| pod.is(of) && !pod.images.is_empty())
    }
}
