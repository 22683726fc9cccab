//! The list calls with their filters. A filter for one object, sandbox or pod does not scan all objects.

use std::collections::HashMap;

use crate::cri::generated as pb;
use crate::sim::indexed_map::POD_UID;
use crate::sim::sim_node::{Node, SimContainer, SimSandbox};

type Labels = HashMap<String, String>;

// === impl Node ===

impl Node {
    pub(in crate::sim) fn list_containers(&self, filter: Option<pb::ContainerFilter>) -> Vec<pb::Container> {
        let filter = filter.unwrap_or_default();
        let fits = |container: &&SimContainer| {
            let listed = &container.listed;
            filter.state.is_none_or(|wanted| wanted.state == listed.state)
                && selects(&filter.label_selector, &listed.labels)
        };
        self.candidate_containers(&filter).into_iter().filter(fits).map(|found| found.listed.clone()).collect()
    }

    pub(in crate::sim) fn list_sandboxes(&self, filter: Option<pb::PodSandboxFilter>) -> Vec<pb::PodSandbox> {
        let filter = filter.unwrap_or_default();
        let fits = |sandbox: &&SimSandbox| {
            let listed = &sandbox.listed;
            filter.state.is_none_or(|wanted| wanted.state == listed.state)
                && selects(&filter.label_selector, &listed.labels)
        };
        self.candidate_sandboxes(&filter).into_iter().filter(fits).map(|found| found.listed.clone()).collect()
    }

    /// Returns all images, because containerd ignores the filter.
    pub(in crate::sim) fn list_images(&self) -> Vec<pb::Image> {
        self.images.iter().map(|image| image.listed.clone()).collect()
    }

    /// Returns the containers that match the id, the sandbox or the pod in the filter.
    fn candidate_containers(&self, filter: &pb::ContainerFilter) -> Vec<&SimContainer> {
        let in_sandbox = self.sandboxes.resolve(&filter.pod_sandbox_id).ok();
        if !filter.id.is_empty() {
            let fits = |container: &&SimContainer| {
                filter.pod_sandbox_id.is_empty() || in_sandbox.as_ref() == Some(&container.listed.pod_sandbox_id)
            };
            return self.containers.find(&filter.id).ok().into_iter().filter(fits).collect();
        }
        if !filter.pod_sandbox_id.is_empty() {
            let sandbox = in_sandbox.and_then(|id| self.sandboxes.get(&id));
            let ids = sandbox.into_iter().flat_map(|sandbox| &sandbox.containers);
            return ids.filter_map(|id| self.containers.get(id)).collect();
        }
        match filter.label_selector.get(POD_UID) {
            Some(uid) => self.containers.of_pod(uid).collect(),
            None => self.containers.iter().collect(),
        }
    }

    fn candidate_sandboxes(&self, filter: &pb::PodSandboxFilter) -> Vec<&SimSandbox> {
        if !filter.id.is_empty() {
            return self.sandboxes.find(&filter.id).ok().into_iter().collect();
        }
        match filter.label_selector.get(POD_UID) {
            Some(uid) => self.sandboxes.of_pod(uid).collect(),
            None => self.sandboxes.iter().collect(),
        }
    }
}

fn selects(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}
