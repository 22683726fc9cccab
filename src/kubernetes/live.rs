//! The last question before anything of a pod that counts as gone is removed (I11): asked of the API server itself, past
//! every cache of ours and of its own.

use std::time::Duration;

use kube::core::Request as Path;
use kube::core::params::GetParams;

use super::connection::{ask, unreadable};
use super::node::is_name;
use super::wire::ApiPod;
use super::{Connection, KubernetesError};
use crate::model::{PodRef, Seen};

/// Asks whether the pod still exists. Gone is what the API server itself says it does not have, by name, and what has
/// given its name to another uid; every other answer, or none, proves nothing.
pub async fn pod_exists(connection: &Connection, pod: &PodRef, limit: Duration) -> Seen<bool> {
    exists(connection, pod, limit).await.into()
}

async fn exists(connection: &Connection, pod: &PodRef, limit: Duration) -> Result<bool, KubernetesError> {
    let what = format!("ask for pod {pod}");
    if !is_name(&pod.namespace) || !is_name(&pod.name) || pod.uid.is_empty() {
        return Err(ask(&what, "its uid, namespace or name is not known".to_owned()));
    }
    let pods = Path::new(format!("/api/v1/namespaces/{}/pods", pod.namespace));
    let request = pods.get(&pod.name, &GetParams::default()).map_err(|error| ask(&what, error.to_string()))?;
    let mut answer = connection.ask::<ApiPod>(&what, request.clone(), limit).await;
    if let Err(KubernetesError::Unreachable { .. }) = answer {
        // A connection that lay idle may be dead and nobody has noticed.
        answer = connection.ask(&what, request, limit).await;
    }
    match answer {
        Ok(found) if found.metadata.name != pod.name || found.metadata.namespace != pod.namespace => {
            Err(unreadable(&what, "it is of something else".to_owned()))
        }
        Ok(found) if found.metadata.uid.is_empty() => Err(unreadable(&what, "a pod without uid".to_owned())),
        Ok(found) => Ok(found.cri_uid() == pod.uid.as_str()),
        Err(error) if error.says_not_found("pods", &pod.name) => Ok(false),
        Err(error) => Err(error),
    }
}
