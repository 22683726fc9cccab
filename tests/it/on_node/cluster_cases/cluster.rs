//! A real API server with objects of any kind, and kubegc beside it.

use std::sync::Arc;
use std::time::Duration;

use ::kubegc::controller::{ControllerSettings, OwnersService, ResourceFilter};
use ::kubegc::kubernetes::{Connection, CredentialCandidates};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams, PropagationPolicy,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::rig::{NodeRig, becomes_true_within};

/// The longest wait for an effect. The cases of Kubernetes have limits from 10 s to 5 min.
const PATIENCE: Duration = Duration::from_mins(5);
/// How long something must stay that must not be deleted.
const QUIET: Duration = Duration::from_secs(5);

/// The kinds of the cases, and their apiVersion.
const KINDS: [(&str, &str); 12] = [
    ("ConfigMap", "v1"),
    ("Secret", "v1"),
    ("Pod", "v1"),
    ("Namespace", "v1"),
    ("PersistentVolume", "v1"),
    ("ReplicationController", "v1"),
    ("ReplicaSet", "apps/v1"),
    ("ClusterRole", "rbac.authorization.k8s.io/v1"),
    ("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
    ("Widget", "example.com/v1"),
    ("Gadget", "example.com/v1"),
    ("Thing", "example.com/v1"),
];

/// The API server.
pub struct Cluster<'a> {
    pub node: &'a NodeRig,
}

/// An object: its kind, namespace (empty = cluster-scoped), name and uid.
#[derive(Clone, Debug)]
pub struct Object {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

// === impl Object ===

impl Object {
    /// A reference to this object.
    pub fn reference(&self) -> Value {
        json!({ "apiVersion": api_version(self.kind), "kind": self.kind, "name": self.name, "uid": self.uid })
    }

    /// A reference that blocks the foreground deletion of this object.
    pub fn blocking(&self) -> Value {
        with(self.reference(), "blockOwnerDeletion", json!(true))
    }
}

/// Sets a field of an object or a reference.
pub fn with(mut value: Value, field: &str, to: Value) -> Value {
    value[field] = to;
    value
}

/// An owner that never existed.
pub fn absent_owner() -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-4000-8000-000000000001" })
}

// === impl Cluster ===

impl Cluster<'_> {
    /// Returns a connection with all permissions.
    pub fn connection(&self) -> Arc<Connection> {
        let kubeconfigs = vec![self.node.kubeconfig("admin")];
        Arc::new(Connection::new(CredentialCandidates { kubeconfigs, ..CredentialCandidates::default() }))
    }

    /// Plays beside the service.
    pub async fn beside_run(&self, settings: ControllerSettings, play: impl Future<Output = ()>) {
        let stop = CancellationToken::new();
        let service = OwnersService::new(&self.connection(), settings, ResourceFilter::default(), false, now);
        let play = async {
            play.await;
            stop.cancel();
        };
        tokio::join!(service.run(stop.clone()), play);
    }

    /// Creates a namespace.
    pub async fn namespace(&self, name: &str) {
        self.create("Namespace", "", name, &[]).await;
    }

    /// Creates an object with these owners.
    pub async fn create(&self, kind: &'static str, namespace: &str, name: &str, owners: &[Value]) -> Object {
        self.create_with(kind, namespace, name, owners, json!({})).await
    }

    /// Creates an object with these owners and more metadata.
    pub async fn create_with(
        &self,
        kind: &'static str,
        namespace: &str,
        name: &str,
        owners: &[Value],
        mut metadata: Value,
    ) -> Object {
        (metadata["name"], metadata["ownerReferences"]) = (json!(name), json!(owners));
        let mut body = json!({ "apiVersion": api_version(kind), "kind": kind, "metadata": metadata });
        if let Some(spec) = spec(kind) {
            body["spec"] = spec;
        }
        let body = serde_json::from_value(body).unwrap();
        let made = self.api(kind, namespace).create(&PostParams::default(), &body).await;
        let uid = made.unwrap_or_else(|error| panic!("{kind}/{name}: {error}")).metadata.uid.unwrap();
        Object { kind, namespace: namespace.to_owned(), name: name.to_owned(), uid }
    }

    /// Deletes an object with a policy: Background, Foreground or Orphan.
    pub async fn delete(&self, object: &Object, policy: PropagationPolicy) {
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        self.api(object.kind, &object.namespace).delete(&object.name, &params).await.unwrap();
    }

    /// Replaces the finalizers of an object.
    pub async fn set_finalizers(&self, object: &Object, finalizers: &[&str]) {
        let patch = json!({ "metadata": { "finalizers": finalizers } });
        let api = self.api(object.kind, &object.namespace);
        api.patch(&object.name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Returns the object, if it exists with this uid.
    pub async fn find(&self, object: &Object) -> Option<DynamicObject> {
        let found = self.api(object.kind, &object.namespace).get_opt(&object.name).await.unwrap();
        found.filter(|found| found.metadata.uid.as_ref() == Some(&object.uid))
    }

    /// Returns the names of the owners of an object that must exist.
    pub async fn owners(&self, object: &Object) -> Vec<String> {
        let found = self.find(object).await.unwrap_or_else(|| panic!("{object:?} is gone"));
        found.metadata.owner_references.unwrap_or_default().into_iter().map(|owner| owner.name).collect()
    }

    /// Returns the finalizers of an object; `None` = it does not exist.
    pub async fn finalizers(&self, object: &Object) -> Option<Vec<String>> {
        Some(self.find(object).await?.metadata.finalizers.unwrap_or_default())
    }

    /// Waits until an object is gone.
    pub async fn await_removal(&self, object: &Object) {
        let gone = becomes_true_within(PATIENCE, async || self.find(object).await.is_none()).await;
        assert!(gone, "{object:?} stays: {:?}", self.find(object).await);
    }

    /// Waits until an object has exactly these finalizers.
    pub async fn await_finalizers(&self, object: &Object, expected: &[&str]) {
        let is = async || self.finalizers(object).await.is_some_and(|found| found == expected);
        assert!(becomes_true_within(PATIENCE, is).await, "{:?}", self.find(object).await);
    }

    /// Expects that objects stay. There is no event to wait for: nothing must happen.
    pub async fn stay(&self, objects: &[&Object]) {
        tokio::time::sleep(QUIET).await;
        for object in objects {
            assert!(self.find(object).await.is_some(), "{object:?} is gone");
        }
    }

    /// Creates a definition of a custom resource and waits until it is served.
    pub async fn define(&self, definition: &Value) {
        self.node.create_object(definition).await;
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let (kind, _) = KINDS.iter().find(|(known, _)| *known == kind).unwrap();
        let served = async || self.api(kind, "").list(&kube::api::ListParams::default()).await.is_ok();
        assert!(becomes_true_within(PATIENCE, served).await, "{kind} is not served");
    }

    /// Returns the API of a kind, of a namespace or of the cluster.
    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let api_version = api_version(kind);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            "" => Api::all_with(self.node.kube(), &resource),
            namespace => Api::namespaced_with(self.node.kube(), namespace, &resource),
        }
    }
}

/// Returns the time, for the service.
pub fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

fn api_version(kind: &str) -> &'static str {
    KINDS.iter().find(|(known, _)| *known == kind).unwrap().1
}

fn spec(kind: &str) -> Option<Value> {
    let containers = json!([{ "name": "app", "image": "app" }]);
    let labels = json!({ "app": "x" });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
    Some(match kind {
        "Pod" => json!({ "containers": containers }),
        "ReplicationController" => json!({ "replicas": 0, "selector": labels, "template": template }),
        "ReplicaSet" => json!({ "replicas": 0, "selector": { "matchLabels": labels }, "template": template }),
        "PersistentVolume" => {
            json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/x" } })
        }
        _ => return None,
    })
}
