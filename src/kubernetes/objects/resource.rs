//! A resource of the API, as discovery names it.

/// One resource in one version.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApiResource {
    /// As `apps/v1`, or `v1` for the core group.
    pub api_version: String,
    /// As `deployments`.
    pub resource: String,
    /// As `Deployment`.
    pub kind: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
    /// As `list`.
    pub verbs: Vec<String>,
    /// It is the preferred version of this resource.
    pub is_preferred: bool,
}

// === impl ApiResource ===

impl ApiResource {
    /// Returns the pods, which every API server serves.
    pub fn pods() -> Self {
        Self::known("v1", "pods", "Pod", true)
    }

    /// Returns the nodes, which every API server serves.
    pub fn nodes() -> Self {
        Self::known("v1", "nodes", "Node", false)
    }

    /// Returns the namespaces, which every API server serves.
    pub fn namespaces() -> Self {
        Self::known("v1", "namespaces", "Namespace", false)
    }

    /// Returns the ConfigMaps, which every API server serves.
    pub fn config_maps() -> Self {
        Self::known("v1", "configmaps", "ConfigMap", true)
    }

    /// Returns the CronJobs in one version of their group.
    pub(super) fn cron_jobs(api_version: &str) -> Self {
        Self::known(api_version, "cronjobs", "CronJob", true)
    }

    /// Returns the Jobs.
    pub(super) fn jobs() -> Self {
        Self::known("batch/v1", "jobs", "Job", true)
    }

    /// Returns the StatefulSets.
    pub(super) fn stateful_sets() -> Self {
        Self::known("apps/v1", "statefulsets", "StatefulSet", true)
    }

    /// Returns the ReplicaSets.
    pub(super) fn replica_sets() -> Self {
        Self::known("apps/v1", "replicasets", "ReplicaSet", true)
    }

    /// Returns the policies for the agents on nodes.
    pub fn node_disk_policies() -> Self {
        Self::known("kubegc.dev/v1alpha1", "nodediskpolicies", "NodeDiskPolicy", false)
    }

    /// Returns what agents show of their nodes.
    pub fn node_disks() -> Self {
        Self::known("kubegc.dev/v1alpha1", "nodedisks", "NodeDisk", false)
    }

    /// Returns the Leases.
    pub(super) fn leases() -> Self {
        Self::known("coordination.k8s.io/v1", "leases", "Lease", true)
    }

    fn known(api_version: &str, resource: &str, kind: &str, namespaced: bool) -> Self {
        Self {
            api_version: api_version.to_owned(),
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            namespaced,
            verbs: ["delete", "get", "list", "patch", "watch"].map(str::to_owned).to_vec(),
            is_preferred: true,
        }
    }

    /// Returns whether objects of it can be collected. Events are left out: they are many, and never have owners.
    pub fn is_collectable(&self) -> bool {
        let is_event = self.resource == "events" && matches!(&*self.group(), "" | "events.k8s.io");
        ["delete", "list", "watch"].into_iter().all(|verb| self.can(verb)) && !is_event
    }

    /// Returns whether the API server offers a verb for it.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// Returns the group; empty for the core group.
    pub fn group(&self) -> String {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned()
    }
}
