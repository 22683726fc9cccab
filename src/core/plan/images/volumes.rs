//! Image volumes of containers whose status is unavailable (I6, I13).
//!
//! Only the status of a container shows which images it has mounted. If the status is unavailable, the spec of its pod
//! contains every image that may be mounted. The pass keeps these images and continues. Only if the spec is unknown
//! too, no image is proven unused. The images that containers were created from are in the container list, so they need
//! no status.

use std::collections::HashMap;

use crate::model::{Container, ContainerState, Image, full_image_name};
use crate::plan::document::plan_error::PlanError;
use crate::plan::document::reason::KeepReason;
use crate::plan::pods::ListedPods;
use crate::plan::step::Context;

/// The image volumes that are unknown.
#[derive(Default)]
pub(super) struct UnknownVolumes<'a> {
    /// The images that may be mounted, by full name, each with a container that may have it mounted.
    named: HashMap<String, &'a Container>,
    /// Containers that may have any image mounted, by ID.
    unresolved: Vec<&'a Container>,
}

// === impl UnknownVolumes ===

impl<'a> UnknownVolumes<'a> {
    pub fn new(context: &Context<'a>, containers: &'a [Container]) -> Self {
        let mut unknown: Vec<_> = containers.iter().filter(|container| is_unknown(container)).collect();
        if unknown.is_empty() {
            return Self::default();
        }
        unknown.sort_by(|a, b| a.id.cmp(&b.id));
        let pods = ListedPods::new(context.snapshot);
        let mut found = Self::default();
        for container in unknown {
            // A spec that is known names at least one image.
            let spec = container.pod.as_ref().and_then(|pod| pods.find(pod)).filter(|pod| !pod.images.is_empty());
            match spec {
                Some(pod) => found.name_all(&pod.images, container),
                None => found.unresolved.push(container),
            }
        }
        found
    }

    fn name_all(&mut self, images: &[String], container: &'a Container) {
        for name in images {
            self.named.entry(full_image_name(name).into_owned()).or_insert(container);
        }
    }

    /// Returns why an image is kept that nothing else keeps, if so.
    pub fn keep(&self, image: &Image) -> Option<KeepReason> {
        let container = image.names().find_map(|name| self.named.get(name.as_ref()))?;
        Some(KeepReason::PossibleImageVolume { container: container.id.to_string() })
    }

    /// Returns why no image is proven unused, if so: the first container that may have any image mounted.
    pub fn unresolved(&self) -> Option<PlanError> {
        let (first, others) = self.unresolved.split_first()?;
        Some(PlanError::ImageVolumesUnknown {
            container: first.id.clone(),
            pod: first.pod.clone().map(Box::new),
            cause: first.image_volumes_unknown.clone().unwrap_or_default(),
            others: others.len() as u64,
        })
    }
}

/// Returns whether a container may have unknown images mounted. An EXITED container has nothing mounted.
fn is_unknown(container: &Container) -> bool {
    container.image_volumes_unknown.is_some() && container.state != ContainerState::Exited
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::model::Snapshot;
    use crate::plan::decide;
    use crate::plan::document::Plan;
    use crate::plan::policy::guards::{Guards, Profile};
    use crate::plan::policy::{Policy, Scope};
    use crate::plan::tests::node::{removed, why_kept};

    /// A node with the images `data:1` and `old:1` and one container whose status is unavailable. No container was
    /// created from the images.
    fn node(state: &str, pods: &Value) -> Snapshot {
        serde_json::from_value(json!({
            "taken_at": "2026-11-21T12:00:00Z",
            "containers": { "seen": [{
                "id": "c1", "pod": { "uid": "u1", "namespace": "default", "name": "web-0" }, "name": "app", "state": state,
                "created_at": "2026-11-21T11:00:00Z", "image_volumes_unknown": "ContainerStatus: disk (Internal)",
            }] },
            "sandboxes": { "seen": [] },
            "images": { "seen": [
                { "id": "sha256:aa", "tags": ["docker.io/library/data:1"], "pinned": false },
                { "id": "sha256:bb", "tags": ["docker.io/library/old:1"] },
            ] },
            "log_dirs": { "seen": [] }, "log_links": { "seen": [] },
            "pods": { "seen": { "source": "test", "complete": true, "pods": pods } },
            "memory": { "images": [{ "id": "sha256:aa" }, { "id": "sha256:bb" }] },
        }))
        .unwrap()
    }

    fn spec() -> Value {
        json!([{ "uid": "u1", "namespace": "default", "name": "web-0", "images": ["web:1", "data:1"] }])
    }

    fn plan(node: &Snapshot, profile: Profile) -> Plan {
        let mut policy = Policy { profile, guards: Guards::of(profile), ..Policy::default() };
        policy.images.all_unused = true;
        decide(node, &policy, Scope::Images)
    }

    #[test]
    fn a_failed_container_status_keeps_only_the_specs_images() {
        for state in ["running", "created", "unknown"] {
            let safe = plan(&node(state, &spec()), Profile::Safe);
            assert_eq!((removed(&safe), safe.errors.len()), (vec!["sha256:bb".to_owned()], 0), "{state}");
            let kubelet = plan(&node(state, &spec()), Profile::Kubelet);
            assert_eq!(removed(&kubelet), ["sha256:bb"]);
            assert_eq!(why_kept(&kubelet, "sha256:aa"), "possible_image_volume");
        }
    }

    #[test]
    fn a_failed_status_without_a_spec_keeps_unused_images() {
        for pods in [json!([]), json!([{ "uid": "u1", "namespace": "default", "name": "web-0" }])] {
            let plan = plan(&node("running", &pods), Profile::Safe);
            assert_eq!(removed(&plan), [""; 0]);
            assert_eq!(why_kept(&plan, "sha256:aa"), "image_volumes_unknown");
            let text = plan.errors[0].to_string();
            assert!(text.contains("container c1 of pod default/web-0: ContainerStatus: disk (Internal)"), "{text}");
            assert!(text.contains("hint: "), "{text}");
        }
    }

    #[test]
    fn an_exited_container_has_no_image_mounted() {
        let plan = plan(&node("exited", &json!([])), Profile::Safe);
        assert_eq!((removed(&plan).len(), plan.errors.len()), (2, 0));
    }

    #[test]
    fn an_evicted_terminated_pod_keeps_possibly_mounted_images() {
        let mut pods = spec();
        pods[0]["phase"] = json!("failed");
        let mut policy = Policy::default();
        (policy.images.all_unused, policy.containers.evict_terminated_pods) = (true, true);
        let plan = decide(&node("running", &pods), &policy, Scope::Images);
        assert_eq!(
            (removed(&plan), why_kept(&plan, "sha256:aa")),
            (vec!["sha256:bb".to_owned()], "possible_image_volume")
        );
    }
}
