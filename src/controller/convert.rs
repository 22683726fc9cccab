//! Metadata of the API server as data of `owners`.

use std::num::NonZeroU64;

use crate::kubernetes::{ObjectMetadata, OwnerReferenceMetadata};
use crate::model::{ApiKind, Identity, OwnerReference, Uid};
use crate::owners::{FOREGROUND, LiveObject, ORPHAN, ObjectMeta, Observed, ResourceId};

/// Returns the fields of a snapshot.
pub(super) fn meta(object: ObjectMetadata) -> ObjectMeta {
    let owners = references(&object.owner_references);
    ObjectMeta {
        namespace: object.namespace.into(),
        name: object.name.into(),
        uid: Uid::new(&object.uid),
        deletion_timestamp: object.deletion_timestamp,
        finalizers: object.finalizers,
        owners,
    }
}

/// Returns what a monitor of this kind shows.
pub(super) fn observed(kind: &ApiKind, resource: ResourceId, object: &ObjectMetadata) -> Observed {
    Observed {
        identity: identity(kind, object),
        resource,
        is_deleting: object.deletion_timestamp.is_some(),
        orphans: has(object, ORPHAN),
        is_foreground: has(object, FOREGROUND),
        owners: references(&object.owner_references),
        version: version(&object.resource_version),
    }
}

/// Returns the number that a resource version is. `None` if the number would be written in another way.
fn version(text: &str) -> Option<NonZeroU64> {
    text.parse().ok().filter(|_| text.starts_with(|first: char| matches!(first, '1'..='9')))
}

/// Returns what a live read shows.
pub(super) fn live(identity: Identity, object: &ObjectMetadata) -> LiveObject {
    LiveObject {
        identity,
        is_deleting: object.deletion_timestamp.is_some(),
        orphans: has(object, ORPHAN),
        is_foreground: has(object, FOREGROUND),
        owners: references(&object.owner_references),
    }
}

/// Returns the identity of an object of a kind.
pub(super) fn identity(kind: &ApiKind, object: &ObjectMetadata) -> Identity {
    let ObjectMetadata { namespace, name, uid, .. } = object;
    Identity {
        kind: kind.clone(),
        namespace: namespace.as_str().into(),
        name: name.as_str().into(),
        uid: Uid::new(uid),
    }
}

/// Returns whether the object has a finalizer.
pub(super) fn has(object: &ObjectMetadata, finalizer: &str) -> bool {
    object.finalizers.iter().any(|known| known == finalizer)
}

/// Returns whether the foreground deletion of the object waits for its dependents.
pub(super) fn waits_for_dependents(object: &ObjectMetadata) -> bool {
    object.deletion_timestamp.is_some() && has(object, FOREGROUND)
}

/// Returns the references of an object, in order.
pub(super) fn references(owners: &[OwnerReferenceMetadata]) -> Vec<OwnerReference> {
    let reference = |owner: &OwnerReferenceMetadata| OwnerReference {
        kind: ApiKind::new(&owner.api_version, &owner.kind),
        name: owner.name.as_str().into(),
        uid: Uid::new(&owner.uid),
        controller: owner.controller.unwrap_or_default(),
        blocking: owner.block_owner_deletion.unwrap_or_default(),
    };
    owners.iter().map(reference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_in_its_usual_form_is_a_version() {
        assert_eq!(version("1"), NonZeroU64::new(1));
        assert_eq!(version("18446744073709551615"), NonZeroU64::new(u64::MAX));
        for other in ["", "0", "+5", "007", "-1", "5a", " 5", "18446744073709551616"] {
            assert_eq!(version(other), None, "{other:?}");
        }
    }
}
