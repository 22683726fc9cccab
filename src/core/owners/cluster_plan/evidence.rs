//! The states of the owners of an object, and what proves each.

use super::OwnerFinding;
use crate::model::OwnerReference;
use crate::owners::OwnerState;
use crate::owners::cluster_snapshot::{OwnerAnswer, OwnerRead};
use crate::owners::cluster_state::{ClusterState, Object};

/// Returns the owner references of an object, each with the state of the owner.
pub(in crate::owners) fn owners(cluster: &ClusterState<'_>, object: &Object) -> Vec<OwnerFinding> {
    let finding = |reference: &OwnerReference| {
        let state = cluster.state(object, reference);
        OwnerFinding {
            reference: reference.clone(),
            state: <&str>::from(&state).to_owned(),
            evidence: evidence(cluster, object, reference, &state),
            found: (state == OwnerState::Absent).then(|| cluster.instead(object, reference)).flatten(),
        }
    };
    object.meta.owners.iter().map(finding).collect()
}

/// Says what proves the state of an owner.
fn evidence(cluster: &ClusterState<'_>, object: &Object, reference: &OwnerReference, state: &OwnerState) -> String {
    let kind = &reference.kind;
    match state {
        OwnerState::KindNotServed => match cluster.served.other_versions(kind).as_slice() {
            [] => format!("the API server does not serve {kind}"),
            others => {
                let others: Vec<_> = others.iter().map(|kind| kind.api_version.to_string()).collect();
                format!("the API server does not serve {kind}; it serves {}", others.join(", "))
            }
        },
        OwnerState::Namespaced => format!("{kind} is namespaced, and a cluster-scoped object has no namespace"),
        OwnerState::Unverified(cause) => cause.clone(),
        OwnerState::Orphaned => "it was deleted with the policy orphan".to_owned(),
        OwnerState::Exists | OwnerState::WaitsForDependents | OwnerState::Absent => {
            let owner = cluster.meant(reference, object);
            owner.and_then(|owner| cluster.read(&owner)).map_or_else(|| listed(state), answered)
        }
    }
}

fn listed(state: &OwnerState) -> String {
    let text =
        if *state == OwnerState::Absent { "deleted by an earlier action" } else { "in the list of its resource" };
    text.to_owned()
}

fn answered(read: &OwnerRead) -> String {
    let answer = match &read.answer {
        OwnerAnswer::Exists { .. } => "that it exists".to_owned(),
        OwnerAnswer::NotFound => format!("NotFound for {}", read.owner),
        OwnerAnswer::OtherUid(uid) => format!("that {} has the uid {uid}", read.owner),
        OwnerAnswer::Unavailable(cause) | OwnerAnswer::NotRequested(cause) => return cause.clone(),
    };
    format!("the API server answered {answer} at {}", read.read_at)
}
