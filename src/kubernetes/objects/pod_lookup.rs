//! The live lookup of a pod, right before the first removal for a pod that counts as deleted (I11). It reads from the
//! API server itself, past kubegc's caches and the server's cache.
//!
//! From Kubernetes 1.32 on, a kubelet may get only pods that are bound to its node, so a GET of a deleted pod is
//! forbidden instead of not found. If the refusal names that very node, a complete list of its pods of that name,
//! past every cache, is the proof.

use std::time::Duration;

use super::api_pod::ApiPod;
use super::node_pods::NodePod;
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::requests::list::Listing;
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError};
use crate::model::{Confirms, PodRef, Seen};

/// Returns whether the pod still exists. A pod is deleted if the API server itself answers that the name does not
/// exist, or if the name now belongs to another uid. Any other answer, or no answer, proves nothing.
///
/// With a kubelet's own credentials the lookup differs. From Kubernetes 1.32 on, a node may get only the pods that are
/// bound to it (KEP-4601), so the answer for a deleted pod is "forbidden", not "not live". A node may still list its
/// own pods. A complete list of its pods with this name, from the store itself, proves the same. So does one of all its pods for a
/// pod of which only the uid is known.
pub async fn pod_exists(connection: &Connection, node: &str, pod: &PodRef, limit: Duration) -> Seen<bool> {
    if *pod == (PodRef { uid: pod.uid.clone(), ..PodRef::default() }) && !pod.uid.is_empty() {
        return has_uid(Listing::pods_of(node), connection, pod, limit).await.into();
    }
    match attempt(format!("look up pod {pod}"), exists(connection, pod, limit)).await {
        Err(KubernetesError { cause: Cause::Forbidden(message), .. }) if is_of_node(&message, node) => {
            has_uid(Listing::pod_of(node, &pod.namespace, &pod.name), connection, pod, limit).await.into()
        }
        answer => answer.into(),
    }
}

/// Returns whether the server refused the node itself: `User "system:node:NAME" cannot get resource …`.
fn is_of_node(message: &str, node: &str) -> bool {
    message.contains(&format!("\"system:node:{node}\""))
}

async fn has_uid(
    listing: Listing,
    connection: &Connection,
    pod: &PodRef,
    limit: Duration,
) -> Result<bool, KubernetesError> {
    let listed: Vec<NodePod> = listing.complete(connection, limit).await?;
    Ok(listed.iter().any(|listed| listed.pod.uid == pod.uid))
}

async fn exists(connection: &Connection, pod: &PodRef, limit: Duration) -> Result<bool, Cause> {
    if !Confirms::ByName.can_look_up(pod) {
        return Err(Cause::InvalidRequest("its uid, namespace or name is unknown".to_owned()));
    }
    let resource = ApiResource::pods();
    let request = resource.get(&pod.namespace, &pod.name)?;
    let mut answer = connection.request::<ApiPod>(request.clone(), limit).await;
    if let Err(Cause::Unreachable { .. }) = answer {
        // An idle connection may be dead without any sign.
        answer = connection.request(request, limit).await;
    }
    match answer {
        Ok(live) if !live.is(&resource, &pod.namespace, &pod.name) => Err(Cause::another_object()),
        Ok(live) => Ok(live.cri_uid() == pod.uid.as_str()),
        Err(cause) if cause.says_not_found("pods", &pod.name) => Ok(false),
        Err(cause) => Err(cause),
    }
}
