//! The states of the owners of an object, and what proves each.

use std::borrow::Cow;

use super::OwnerFinding;
use crate::model::OwnerReference;
use crate::owners::OwnerState;
use crate::owners::cluster_snapshot::{OwnerAnswer, OwnerRead};
use crate::owners::cluster_state::{ClusterState, Object};

pub(in crate::owners) fn owners(cluster: &ClusterState<'_>, object: &Object<'_>) -> Vec<OwnerFinding> {
    let finding = |reference: &OwnerReference| {
        let state = cluster.state(object, reference);
        OwnerFinding {
            reference: reference.clone(),
            state: <&str>::from(&state).into(),
            evidence: evidence(cluster, object, reference, &state),
            found: (state == OwnerState::Absent).then(|| cluster.instead(object, reference)).flatten().map(Box::new),
        }
    };
    object.meta().owners.iter().map(finding).collect()
}

/// Says what proves the state of an owner.
fn evidence(
    cluster: &ClusterState<'_>,
    object: &Object<'_>,
    reference: &OwnerReference,
    state: &OwnerState,
) -> Cow<'static, str> {
    let kind = &reference.kind;
    match state {
        OwnerState::KindNotServed => match cluster.served.other_versions(kind).as_slice() {
            [] => format!("the API server does not serve {kind}").into(),
            others => {
                let others: Vec<_> = others.iter().map(|kind| kind.api_version.to_string()).collect();
                format!("the API server does not serve {kind}; it serves {}", others.join(", ")).into()
            }
        },
        OwnerState::Namespaced => format!("{kind} is namespaced, and a cluster-scoped object has no namespace").into(),
        OwnerState::Unverified(cause) => cause.clone().into(),
        OwnerState::Orphaned => "it was deleted with the policy orphan".into(),
        OwnerState::Exists | OwnerState::WaitsForDependents | OwnerState::Absent => {
            let owner = cluster.meant(reference, object);
            owner
                .and_then(|owner| cluster.read(&owner))
                .map_or_else(|| listed(state).into(), |read| answered(read).into())
        }
    }
}

fn listed(state: &OwnerState) -> &'static str {
    if *state == OwnerState::Absent { "deleted by an earlier action" } else { "in the list of its resource" }
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
