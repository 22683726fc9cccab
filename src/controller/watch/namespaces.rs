//! The namespaces of a resource that cannot be listed as a whole, as with a broken conversion webhook: one without such
//! objects, or with readable ones, can be listed by itself. It shows whether a deletion there has dependents of the resource.

use std::collections::BTreeSet;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use tokio::time::sleep;

use crate::controller::settings::LISTS;
use crate::kubernetes::{ApiResource, Connection, list_metadata_in};
use crate::model::{FOREGROUND, ORPHAN};
use crate::owners::OwnersByNamespace;

/// Returns the namespace of an object if a finalizer of garbage collection holds it.
pub(in crate::controller) fn waits_in(namespace: &Arc<str>, finalizers: &[String]) -> Option<Arc<str>> {
    let is_ours = |finalizer: &String| [FOREGROUND, ORPHAN].contains(&finalizer.as_str());
    (!namespace.is_empty() && finalizers.iter().any(is_ours)).then(|| Arc::clone(namespace))
}

/// Lists namespaces of resources, in the time of one answer all together, and returns what they show of each resource. Those
/// whose list fails or is late are left out.
pub(in crate::controller) async fn owners_in_namespaces(
    connection: &Connection,
    resources: &[&ApiResource],
    namespaces: &BTreeSet<Arc<str>>,
    limit: Duration,
) -> Vec<OwnersByNamespace> {
    let numbered = resources.iter().enumerate().filter(|(_, resource)| resource.namespaced);
    let pairs = numbered.flat_map(|(at, resource)| namespaces.iter().map(move |namespace| (at, resource, namespace)));
    let lists = pairs.map(|(at, resource, namespace)| async move {
        let objects = list_metadata_in(connection, resource, namespace, None, limit).await.ok()?;
        let owners = objects.into_iter().flat_map(|object| object.owners).map(|owner| owner.uid);
        Some((at, Arc::clone(namespace), owners.collect()))
    });
    let mut listed = pin!(stream::iter(lists).buffer_unordered(LISTS).take_until(sleep(limit)).filter_map(ready));
    let mut of_resources = vec![OwnersByNamespace::new(); resources.len()];
    while let Some((at, namespace, owners)) = listed.next().await {
        if let Some(of_resource) = of_resources.get_mut(at) {
            of_resource.insert(namespace, owners);
        }
    }
    of_resources
}
