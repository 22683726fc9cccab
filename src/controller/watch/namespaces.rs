//! The namespaces of a resource that cannot be listed as a whole, as with a broken conversion webhook: one without such
//! objects, or with readable ones, can be listed by itself. It shows whether a deletion there has dependents of the resource.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use tokio::time::sleep;

use crate::controller::settings::LISTS;
use crate::kubernetes::{ApiResource, Connection, list_metadata_in};
use crate::model::{FOREGROUND, ORPHAN, ObjectMeta};
use crate::owners::OwnersByNamespace;

/// Returns the namespace of an object if a finalizer of garbage collection holds it.
pub(in crate::controller) fn waits_in(namespace: &Arc<str>, finalizers: &[String]) -> Option<Arc<str>> {
    let is_ours = |finalizer: &String| [FOREGROUND, ORPHAN].contains(&finalizer.as_str());
    (!namespace.is_empty() && finalizers.iter().any(is_ours)).then(|| Arc::clone(namespace))
}

pub(in crate::controller) type InNamespaces = BTreeMap<Arc<str>, Vec<ObjectMeta>>;

/// Lists namespaces of resources, in the time of one answer all together, and returns the objects of each resource. Namespaces
/// whose list fails or is late are left out.
pub(in crate::controller) async fn list_in_namespaces(
    connection: &Connection,
    resources: &[&ApiResource],
    namespaces: &BTreeSet<Arc<str>>,
    limit: Duration,
) -> Vec<InNamespaces> {
    let numbered = resources.iter().enumerate().filter(|(_, resource)| resource.namespaced);
    let pairs = numbered.flat_map(|(at, resource)| namespaces.iter().map(move |namespace| (at, resource, namespace)));
    let lists = pairs.map(|(at, resource, namespace)| async move {
        let objects = list_metadata_in(connection, resource, namespace, None, limit).await.ok()?;
        Some((at, Arc::clone(namespace), objects))
    });
    let mut listed = pin!(stream::iter(lists).buffer_unordered(LISTS).take_until(sleep(limit)).filter_map(ready));
    let mut of_resources = vec![InNamespaces::new(); resources.len()];
    while let Some((at, namespace, objects)) = listed.next().await {
        if let Some(of_resource) = of_resources.get_mut(at) {
            of_resource.insert(namespace, objects);
        }
    }
    of_resources
}

/// Returns the owners that the objects of each namespace name.
pub(in crate::controller) fn owners_in(listed: &InNamespaces) -> OwnersByNamespace {
    let owners =
        |objects: &[ObjectMeta]| objects.iter().flat_map(|it| &it.owners).map(|owner| owner.uid.clone()).collect();
    listed.iter().map(|(namespace, objects)| (Arc::clone(namespace), owners(objects))).collect()
}
