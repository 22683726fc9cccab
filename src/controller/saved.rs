//! Objects as they were before their deletion, in a form that `kubectl create -f` takes.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::controller::calls::Calls;
use crate::controller::watch::resources::DEFINITIONS;
use crate::kubernetes::{ApiResource, Cause, KubernetesError, WriteTarget, read_object};
use crate::model::LAST_APPLIED;

/// What the API server sets itself, and what it refuses or would act on when the object is created again: the owners are gone.
const LEFT_OUT: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "ownerReferences",
    "selfLink",
];
const NAMESPACES: &str = "namespaces";
/// What has the data of a Secret. An annotation of kubectl has them again.
const SECRET: [&str; 2] = ["data", "stringData"];

/// Keeps an object. If that fails, the object is not deleted.
pub type Keep = Arc<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;

/// How objects are saved before they are deleted.
#[derive(Clone)]
pub struct SaveOptions {
    pub keep: Keep,
    pub secrets: bool,
}

// === impl SaveOptions ===

impl std::fmt::Debug for SaveOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SaveOptions").field("secrets", &self.secrets).finish_non_exhaustive()
    }
}

impl SaveOptions {
    /// Saves an object as the API server has it.
    pub(in crate::controller) fn save(&self, mut object: Value) -> Result<(), String> {
        if let Some(fields) = object.as_object_mut() {
            prepare(fields, !self.secrets);
        }
        (self.keep)(&object)
    }
}

// === impl Calls ===

impl Calls {
    /// Saves an object before its deletion, if objects are saved. One that is gone needs no copy. What the API server deletes with a
    /// namespace or a definition of a resource is not saved, so they stay.
    pub(in crate::controller) async fn save(&self, target: WriteTarget<'_>) -> Result<(), KubernetesError> {
        let Some(save) = &self.save else { return Ok(()) };
        let WriteTarget { resource, namespace, name, uid } = target;
        let not_saved = |cause: String| Cause::InvalidRequest(cause).of(format!("save {name:?}"));
        if [NAMESPACES, DEFINITIONS].contains(&&*full_name(resource)) {
            return Err(not_saved("its content would be deleted with it, and is not saved".to_owned()));
        }
        let _permit = self.permit().await?;
        match read_object(&self.connection, resource, namespace, name, self.answer).await? {
            Some(object) if object.pointer("/metadata/uid").and_then(Value::as_str) == Some(&uid.to_string()) => {
                save.save(object).map_err(not_saved)
            }
            _ => Ok(()),
        }
    }
}

fn full_name(resource: &ApiResource) -> String {
    let ApiResource { resource: name, .. } = resource;
    match &*resource.group() {
        "" => name.clone(),
        group => format!("{name}.{group}"),
    }
}

fn prepare(object: &mut Map<String, Value>, without_secrets: bool) {
    object.remove("status");
    let is_secret = object.get("kind").and_then(Value::as_str) == Some("Secret");
    if is_secret && without_secrets {
        object.retain(|field, _| !SECRET.contains(&field.as_str()));
    }
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|field, _| !LEFT_OUT.contains(&field.as_str()));
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut).filter(|_| is_secret) {
        annotations.remove(LAST_APPLIED);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_saved_object_can_be_created_and_has_no_secrets() {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "data": {"password": "eA=="}, "type": "Opaque", "status": {"a": 1},
            "metadata": {
                "name": "a", "namespace": "ns1", "uid": "u", "resourceVersion": "7", "finalizers": ["example.com/hold"],
                "ownerReferences": [{"name": "gone"}], "managedFields": [], "labels": {"app": "web"},
                "annotations": {LAST_APPLIED: "{\"data\":{\"password\":\"eA==\"}}", "other": "x"},
            },
        });
        let kept = Arc::<Mutex<Vec<Value>>>::default();
        for secrets in [false, true] {
            let into = Arc::clone(&kept);
            let keep: Keep = Arc::new(move |object| {
                into.lock().unwrap().push(object.clone());
                Ok(())
            });
            SaveOptions { keep, secrets }.save(secret.clone()).unwrap();
        }
        let mut expected = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "a", "namespace": "ns1", "finalizers": ["example.com/hold"], "labels": {"app": "web"},
                "annotations": {"other": "x"}},
        });
        let kept = kept.lock().unwrap();
        assert_eq!(kept[0], expected);
        expected["data"] = json!({"password": "eA=="});
        assert_eq!(kept[1], expected);
    }
}
