//! A forest of objects with owner references, as in `tests/data/vectors/owner_forests_136.jsonl`; its README explains the
//! format.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

/// The kinds of the forests: apiVersion, kind, plural, whether it is namespaced.
pub const KINDS: [(&str, &str, &str, bool); 8] = [
    ("v1", "ConfigMap", "configmaps", true),
    ("v1", "Secret", "secrets", true),
    ("v1", "Pod", "pods", true),
    ("v1", "ServiceAccount", "serviceaccounts", true),
    ("apps/v1", "ReplicaSet", "replicasets", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
    ("example.com/v1", "Widget", "widgets", true),
    ("example.com/v1", "Gadget", "gadgets", false),
];

#[derive(Clone, Debug, Deserialize)]
pub struct Forest {
    pub name: String,
    pub objects: Vec<ForestObject>,
    pub steps: Vec<Step>,
    pub states: Vec<State>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ForestObject {
    pub id: String,
    pub kind: String,
    pub ns: Option<u8>,
    pub owners: Vec<Reference>,
    #[serde(default)]
    pub late_owners: Vec<Reference>,
    pub finalizers: Vec<String>,
}

/// A reference to the object `to`, with other values where they are given; without `to` the owner never existed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    pub to: Option<String>,
    pub api_version: Option<String>,
    pub kind: Option<String>,
    pub name: Option<String>,
    pub uid: Option<String>,
    pub block: bool,
    #[serde(default)]
    pub controller: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Step {
    Delete { delete: String, policy: String },
    Release { release: String },
    DeleteNamespace { delete_namespace: u8 },
}

/// The objects that are left, by id.
pub type State = BTreeMap<String, Left>;

#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Left {
    pub terminating: bool,
    pub finalizers: Vec<String>,
    /// The id or uid, the kind, whether it blocks; sorted, each once.
    pub owners: Vec<(String, String, bool)>,
}

// === impl Forest ===

impl Forest {
    /// Reads all forests.
    pub fn all() -> Vec<Self> {
        let text = include_str!("../../../data/vectors/owner_forests_136.jsonl");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns an object by its id.
    pub fn object(&self, id: &str) -> &ForestObject {
        self.objects.iter().find(|object| object.id == id).unwrap()
    }

    /// Returns the name of an object.
    pub fn name_of(&self, id: &str) -> String {
        format!("p-{}-{id}", self.name)
    }

    /// Returns the namespace of an object, if it has one.
    pub fn namespace_of(&self, object: &ForestObject) -> Option<String> {
        object.ns.map(|ns| self.namespace(ns))
    }

    /// Returns the name of a namespace. In states its id is `a` or `b`.
    pub fn namespace(&self, ns: u8) -> String {
        format!("p-{}-{}", self.name, if ns == 0 { "a" } else { "b" })
    }

    /// Returns the object as it is created.
    pub fn body(&self, object: &ForestObject, uids: &BTreeMap<String, String>) -> Value {
        let mut body = json!({
            "metadata": {
                "name": self.name_of(&object.id), "finalizers": object.finalizers,
                "ownerReferences": self.references(&object.owners, uids),
            },
        });
        if object.kind == "ReplicaSet" {
            let labels = json!({ "app": object.id });
            let container = json!({ "name": "app", "image": "app" });
            let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
            body["spec"] = json!({ "replicas": 0, "selector": { "matchLabels": labels }, "template": template });
        }
        if object.kind == "Pod" {
            // It is bound to no node, so a deletion has no grace period.
            body["spec"] = json!({ "containers": [{ "name": "app", "image": "app" }] });
        }
        body
    }

    /// Returns all references of an object with late owners; `None` if it has none.
    pub fn late_references(&self, object: &ForestObject, uids: &BTreeMap<String, String>) -> Option<Value> {
        let mut all = self.references(&object.owners, uids);
        all.extend(self.references(&object.late_owners, uids));
        (!object.late_owners.is_empty()).then(|| json!(all))
    }

    fn references(&self, references: &[Reference], uids: &BTreeMap<String, String>) -> Vec<Value> {
        references.iter().map(|reference| self.reference(reference, uids)).collect()
    }

    fn reference(&self, reference: &Reference, uids: &BTreeMap<String, String>) -> Value {
        let to = reference.to.as_deref();
        let kind = to.map(|to| kind(&self.object(to).kind));
        let or = |own: &Option<String>, of: &dyn Fn() -> String| own.clone().unwrap_or_else(of);
        json!({
            "apiVersion": or(&reference.api_version, &|| kind.unwrap().0.to_owned()),
            "kind": or(&reference.kind, &|| kind.unwrap().1.to_owned()),
            "name": or(&reference.name, &|| self.name_of(to.unwrap())),
            "uid": or(&reference.uid, &|| uids[to.unwrap()].clone()),
            "controller": reference.controller,
            "blockOwnerDeletion": reference.block,
        })
    }
}

/// Returns the row of a kind.
pub fn kind(name: &str) -> (&'static str, &'static str, &'static str, bool) {
    *KINDS.iter().find(|(_, kind, ..)| *kind == name).unwrap()
}

/// Returns the two custom resources. Their schema is open.
pub fn custom_resources() -> [Value; 2] {
    let version = |name: &str, storage: bool| {
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        json!({ "name": name, "served": true, "storage": storage, "schema": { "openAPIV3Schema": schema } })
    };
    let custom = |kind: &str, plural: &str, scope: &str, versions: &[Value]| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.example.com") },
            "spec": {
                "group": "example.com", "scope": scope, "versions": versions,
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            },
        })
    };
    [
        custom("Widget", "widgets", "Namespaced", &[version("v1", true), version("v2", false)]),
        custom("Gadget", "gadgets", "Cluster", &[version("v1", true)]),
    ]
}
