//! Writes and deletes the policies of commands.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;

use super::explained;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::fleet::NodeDiskPolicySpec;
use crate::kubernetes::{
    ApiResource, Connection, Deletion, LabeledObject, WriteTarget, apply_policy, delete_object, read_object,
};

pub(super) const LIMIT: Duration = Duration::from_secs(15);
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Creates a policy, or replaces one that a command wrote for the same purpose: `fleet remove` must not end a pause of the same name.
pub(super) async fn write_policy(
    connection: &Connection,
    name: &str,
    spec: &NodeDiskPolicySpec,
) -> Result<ObjectMeta, CliError> {
    if let Some((policy, before)) = read_policy(connection, name).await? {
        check_own(&policy, name, "replace")?;
        if purposes(&before) != purposes(spec) {
            let message = format!("cannot replace the NodeDiskPolicy {name:?}: it has another purpose");
            return Err(CliError::message(ErrorKind::Usage, message).hint("--name selects another name"));
        }
    }
    apply_policy(connection, name, spec, LIMIT).await.map_err(explained)
}

fn purposes(spec: &NodeDiskPolicySpec) -> [bool; 3] {
    [spec.paused.is_some(), spec.mode.is_some(), spec.remove_images.is_some()]
}

/// Reads a policy. Settings that cannot be read count as none.
async fn read_policy(
    connection: &Connection,
    name: &str,
) -> Result<Option<(LabeledObject, NodeDiskPolicySpec)>, CliError> {
    let resource = ApiResource::node_disk_policies();
    let read = read_object(connection, &resource, "", name, LIMIT).await.map_err(explained)?;
    Ok(read.and_then(|policy| {
        let spec = policy.get("spec").and_then(|spec| NodeDiskPolicySpec::deserialize(spec).ok()).unwrap_or_default();
        Some((LabeledObject::deserialize(policy).ok()?, spec))
    }))
}

/// A policy that a person wrote stays as it is: it may have more than a command knows.
fn check_own(policy: &LabeledObject, name: &str, verb: &str) -> Result<(), CliError> {
    if policy.labels.get(MANAGED_BY).map(String::as_str) == Some("kubegc") {
        return Ok(());
    }
    let message = format!("cannot {verb} the NodeDiskPolicy {name:?}: kubegc did not write it");
    Err(CliError::message(ErrorKind::Usage, message).hint("edit or delete it with kubectl"))
}

pub(super) async fn delete_policy(connection: &Connection, name: &str) -> Result<bool, CliError> {
    let Some((policy, _)) = read_policy(connection, name).await? else { return Ok(false) };
    check_own(&policy, name, "delete")?;
    let resource = ApiResource::node_disk_policies();
    let target = WriteTarget { resource: &resource, namespace: "", name, uid: &policy.meta.uid };
    delete_object(connection, target, &Deletion::default(), LIMIT).await.map_err(explained)?;
    Ok(true)
}
