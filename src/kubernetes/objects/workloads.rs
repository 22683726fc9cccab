//! The workloads of a cluster: the objects that create pods, for the images in their templates.
//!
//! A Deployment creates its pods through ReplicaSets, and keeps old ones for a return. The newest two of each count: the current
//! one, and the one to which `kubectl rollout undo` returns.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::Deserialize;

use super::api_pod::PodSpec;
use super::object::{Head, Object};
use crate::kubernetes::{ApiResource, Connection, KubernetesError, list_objects};
use crate::model::Workload;

/// The ReplicaSets of a Deployment that count.
const REVISIONS: usize = 2;
/// The most images that a workload protects. Few pods have more containers, and one suspended CronJob could name any number.
const OF_WORKLOAD: usize = 20;
/// The most images that the workloads of a namespace protect together: as many as a large team deploys.
const OF_NAMESPACE: usize = 200;

/// An object with a template of pods.
type ApiWorkload = Object<Head<Revision>, Spec>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Revision {
    #[serde(rename = "deployment.kubernetes.io/revision")]
    revision: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    template: Option<Template>,
    job_template: Option<JobTemplate>,
    suspend: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct JobTemplate {
    spec: JobSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct JobSpec {
    template: Option<Template>,
}

/// Lists the CronJobs, suspended Jobs, StatefulSets and ReplicaSets of all namespaces. `limit` is the longest wait for a page.
///
/// # Errors
///
/// One of the lists is not complete.
pub async fn list_workloads(connection: &Connection, limit: Duration) -> Result<Vec<Workload>, KubernetesError> {
    let jobs = cron_jobs(connection, limit).await?.into_iter().map(|job| job.into_workload("CronJob"));
    let suspended = suspended(list_objects(connection, &ApiResource::jobs(), limit).await?);
    let sets = list_objects::<ApiWorkload>(connection, &ApiResource::stateful_sets(), limit).await?;
    let sets = sets.into_iter().map(|set| set.into_workload("StatefulSet"));
    let replica_sets = list_objects(connection, &ApiResource::replica_sets(), limit).await?;
    let replica_sets = newest(replica_sets).into_iter().map(|set| set.into_workload("ReplicaSet"));
    Ok(bounded(jobs.chain(suspended).chain(sets).chain(replica_sets).collect()))
}

/// Leaves out the images beyond the limits, so that no tenant keeps the disks of all nodes full. Those of other namespaces are not
/// affected.
fn bounded(mut workloads: Vec<Workload>) -> Vec<Workload> {
    workloads.sort_unstable();
    let mut of_namespaces = HashMap::<String, HashSet<String>>::new();
    for workload in &mut workloads {
        let known = of_namespaces.entry(workload.namespace.clone()).or_default();
        let named = workload.images.len();
        workload.images.truncate(OF_WORKLOAD);
        workload
            .images
            .retain(|image| known.contains(image) || (known.len() < OF_NAMESPACE && known.insert(image.clone())));
        workload.left_out = (named - workload.images.len()) as u64;
        if workload.left_out > 0 {
            tracing::warn!(%workload, left_out = workload.left_out, "a workload names more images than are kept for it");
        }
    }
    workloads
}

/// Lists the CronJobs. Servers before 1.21 have only an older version of them.
async fn cron_jobs(connection: &Connection, limit: Duration) -> Result<Vec<ApiWorkload>, KubernetesError> {
    match list_objects(connection, &ApiResource::cron_jobs("batch/v1"), limit).await {
        Err(error) if error.cause.code() == Some(404) => {
            list_objects(connection, &ApiResource::cron_jobs("batch/v1beta1"), limit).await
        }
        listed => listed,
    }
}

/// Returns the Jobs that count: those that wait until someone or a queue resumes them. Others have their pods, or have ended.
fn suspended(jobs: Vec<ApiWorkload>) -> impl Iterator<Item = Workload> {
    jobs.into_iter().filter(|job| job.spec.suspend).map(|job| job.into_workload("Job"))
}

/// Returns the ReplicaSets that count.
fn newest(sets: Vec<ApiWorkload>) -> Vec<ApiWorkload> {
    let mut by_owner: HashMap<_, Vec<ApiWorkload>> = HashMap::new();
    for set in sets {
        // One without an owner is its own. An owner is known by all that names it: a tenant may write any uid, but only in objects
        // of its own namespace.
        let owner = set.metadata.controller().map(|owner| (owner.kind.clone(), owner.name.clone(), owner.uid.clone()));
        let owner = owner.unwrap_or_else(|| (String::new(), set.metadata.name.clone(), String::new()));
        by_owner.entry((set.metadata.namespace.clone(), owner)).or_default().push(set);
    }
    let sets = by_owner.into_values().flat_map(|mut sets| {
        sets.sort_by_key(|set| Reverse(set.revision()));
        sets.truncate(REVISIONS);
        sets
    });
    sets.collect()
}

// === impl ApiWorkload ===

impl ApiWorkload {
    fn revision(&self) -> u64 {
        self.metadata.annotations.revision.as_ref().and_then(|revision| revision.parse().ok()).unwrap_or_default()
    }

    /// Returns what kubegc keeps of it. A ReplicaSet is named by its Deployment.
    fn into_workload(self, kind: &str) -> Workload {
        let owner = self.metadata.controller().cloned();
        let (kind, name) =
            owner.map_or_else(|| (kind.to_owned(), self.metadata.name), |owner| (owner.kind, owner.name));
        let template = self.spec.template.or_else(|| self.spec.job_template?.spec.template);
        let images = template.map(|template| template.spec.images()).unwrap_or_default();
        Workload { kind, namespace: self.metadata.namespace, name, images, left_out: 0 }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workloads(kind: &str, objects: &serde_json::Value) -> Vec<String> {
        let objects: Vec<ApiWorkload> = serde_json::from_value(objects.clone()).unwrap();
        let mut shown: Vec<_> = newest(objects).into_iter().map(|one| one.into_workload(kind)).collect();
        shown.sort();
        shown.iter().map(|one| format!("{one}: {}", one.images.join(" "))).collect()
    }

    fn replica_set(name: &str, revision: &str, image: &str) -> serde_json::Value {
        json!({
            "metadata": {
                "namespace": "shop", "name": name, "annotations": { "deployment.kubernetes.io/revision": revision },
                "ownerReferences": [{ "kind": "Deployment", "name": "web", "uid": "d", "controller": true }],
            },
            "spec": { "replicas": 0, "template": { "spec": { "containers": [{ "image": image }] } } },
        })
    }

    #[test]
    fn the_two_newest_revisions_of_a_deployment_count() {
        let sets = ["2", "10", "9", "1"]
            .map(|revision| replica_set(&format!("web-{revision}"), revision, &format!("web:{revision}")));
        assert_eq!(
            workloads("ReplicaSet", &json!(sets)),
            ["deployment/shop/web: web:10", "deployment/shop/web: web:9"]
        );
    }

    #[test]
    fn an_owner_is_known_by_its_namespace_and_name_too() {
        let forged = |revision: &str| {
            let mut set = replica_set(&format!("web-{revision}"), revision, &format!("forged:{revision}"));
            set["metadata"]["namespace"] = json!("aaa");
            set
        };
        let renamed = |revision: &str| {
            let mut set = replica_set(&format!("other-{revision}"), revision, &format!("renamed:{revision}"));
            set["metadata"]["ownerReferences"][0]["name"] = json!("other");
            set
        };
        let sets = [replica_set("web-1", "1", "web:1"), forged("8"), forged("9"), renamed("8"), renamed("9")];
        let shown = workloads("ReplicaSet", &json!(sets));
        assert_eq!(shown[shown.len() - 1], "deployment/shop/web: web:1", "{shown:?}");
        assert_eq!(shown.len(), 5, "{shown:?}");
    }

    #[test]
    fn a_workload_and_a_namespace_keep_so_many_images() {
        let job = |namespace: &str, name: &str, images: std::ops::Range<usize>| Workload {
            kind: "CronJob".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            images: images.map(|number| format!("{name}:{number}")).collect(),
            left_out: 0,
        };
        let many = (0..12).map(|number| job("aaa", &format!("job-{number:02}"), 0..50));
        let found = bounded(many.chain([job("shop", "report", 0..2)]).collect());
        let counts: Vec<_> = found.iter().map(|one| (one.images.len(), one.left_out)).collect();
        assert_eq!(counts, [[(20, 30); 10].as_slice(), &[(0, 50); 2], &[(2, 0)]].concat());
    }

    #[test]
    fn templates_of_all_kinds_are_read() {
        let template =
            json!({ "spec": { "initContainers": [{ "image": "init" }], "containers": [{ "image": "app" }] } });
        let set = json!([{ "metadata": { "namespace": "shop", "name": "db" }, "spec": { "template": template } }]);
        assert_eq!(workloads("StatefulSet", &set), ["statefulset/shop/db: app init"]);
        let job = json!([{ "metadata": { "namespace": "shop", "name": "report" }, "spec": { "jobTemplate": { "spec": { "template": template } } } }]);
        assert_eq!(workloads("CronJob", &job), ["cronjob/shop/report: app init"]);
        assert_eq!(workloads("ReplicaSet", &json!([{ "metadata": { "name": "x" }, "spec": {} }])), ["replicaset//x: "]);
    }

    #[test]
    fn a_job_counts_while_it_is_suspended() {
        let job = |name: &str, suspend: bool| {
            let template = json!({ "spec": { "containers": [{ "image": "app" }] } });
            json!({ "metadata": { "namespace": "shop", "name": name }, "spec": { "suspend": suspend, "template": template } })
        };
        let jobs = serde_json::from_value(json!([job("waits", true), job("runs", false)])).unwrap();
        let shown: Vec<_> = suspended(jobs).map(|one| format!("{one}: {}", one.images.join(" "))).collect();
        assert_eq!(shown, ["job/shop/waits: app"]);
    }
}
