//! Chooses another identity for an owner that no monitor has shown, after one identity was proven absent.

use crate::model::{Identity, OwnerReference};

/// Returns the identity to verify next: the next one in a fixed order among those that the references mean, so that
/// each is verified in turn. `None` if the references mean no other.
pub(super) fn next_identity(references: &[(Identity, OwnerReference)], absent: &Identity) -> Option<Identity> {
    let mut meant: Vec<Identity> = references
        .iter()
        .filter(|(_, reference)| reference.uid == absent.uid)
        .map(|(dependent, reference)| reference.identity(&namespace(dependent, reference, absent)))
        .filter(|identity| identity != absent)
        .collect();
    meant.sort_by_cached_key(order);
    let after = meant.iter().position(|identity| order(identity) > order(absent)).unwrap_or(0);
    (after < meant.len()).then(|| meant.swap_remove(after))
}

/// The owner is in the namespace of the dependent, or in none if the same kind proved to be cluster-scoped.
fn namespace(dependent: &Identity, reference: &OwnerReference, absent: &Identity) -> String {
    let is_cluster_scoped = absent.is_cluster_scoped() && reference.kind == absent.kind;
    if is_cluster_scoped { String::new() } else { dependent.namespace.to_string() }
}

/// As in kube-controller-manager: kind, apiVersion, namespace, name, uid.
fn order(identity: &Identity) -> [String; 5] {
    let Identity { kind, namespace, name, uid } = identity;
    [kind.kind.to_string(), kind.api_version.to_string(), namespace.to_string(), name.to_string(), uid.to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ApiKind, Uid};

    fn owner(kind: &str, namespace: &str, name: &str) -> Identity {
        let kind = ApiKind::new("v1", kind);
        Identity { kind, namespace: namespace.into(), name: name.into(), uid: Uid::new("owner") }
    }

    fn version(api_version: &str, owner: Identity) -> Identity {
        Identity { kind: ApiKind::new(api_version, &owner.kind.kind), ..owner }
    }

    /// A dependent in the namespace with a reference to each owner.
    fn child(namespace: &str, owners: &[Identity]) -> Vec<(Identity, OwnerReference)> {
        let child = Identity { uid: Uid::new("child"), ..owner("Pod", namespace, "child") };
        let reference = |owner: &Identity| OwnerReference {
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: None,
            blocking: None,
        };
        owners.iter().map(|owner| (child.clone(), reference(owner))).collect()
    }

    /// The rows of upstream's `TestGetAlternateOwnerIdentity`.
    #[test]
    fn the_next_owner_identity_follows_the_absent_one() {
        let pod = |namespace| owner("Pod", namespace, "a");
        let node = || owner("Node", "", "a");
        let other_uid = Identity { uid: Uid::new("other"), ..owner("Aaa", "ns1", "a") };
        let rows: [(&str, Vec<_>, Identity, Option<Identity>); 15] = [
            (
                "namespaced, other version",
                child("ns1", &[version("v2", pod("ns1")), pod("ns1")]),
                pod("ns1"),
                Some(version("v2", pod("ns1"))),
            ),
            (
                "namespaced, other kind",
                child("ns1", &[owner("Secret", "ns1", "a")]),
                pod("ns1"),
                Some(owner("Secret", "ns1", "a")),
            ),
            ("namespaced, other namespace", child("ns2", &[pod("ns2")]), pod("ns1"), Some(pod("ns2"))),
            (
                "namespaced, other name",
                child("ns1", &[owner("Pod", "ns1", "b"), pod("ns1")]),
                pod("ns1"),
                Some(owner("Pod", "ns1", "b")),
            ),
            (
                "cluster-scoped, other version",
                child("ns1", &[version("v2", node())]),
                node(),
                Some(Identity { namespace: "ns1".into(), ..version("v2", node()) }),
            ),
            (
                "cluster-scoped, other kind",
                child("ns1", &[owner("Zone", "", "a")]),
                node(),
                Some(owner("Zone", "ns1", "a")),
            ),
            ("cluster-scoped, other namespace", child("ns2", &[node()]), node(), None),
            (
                "cluster-scoped, other name",
                child("ns1", &[owner("Node", "", "b")]),
                node(),
                Some(owner("Node", "", "b")),
            ),
            (
                "namespaced, the absent one is last",
                child("ns1", &[owner("A", "ns1", "a"), owner("B", "ns1", "a")]),
                pod("ns1"),
                Some(owner("A", "ns1", "a")),
            ),
            (
                "namespaced, between two",
                child("ns1", &[owner("A", "ns1", "a"), owner("Z", "ns1", "a")]),
                pod("ns1"),
                Some(owner("Z", "ns1", "a")),
            ),
            (
                "cluster-scoped, the absent one is last",
                child("", &[owner("A", "", "a"), owner("B", "", "a")]),
                node(),
                Some(owner("A", "", "a")),
            ),
            (
                "cluster-scoped, between two",
                child("", &[owner("A", "", "a"), owner("Z", "", "a")]),
                node(),
                Some(owner("Z", "", "a")),
            ),
            ("an unrelated uid", child("ns1", &[other_uid]), pod("ns1"), None),
            ("only the same identity", child("ns1", &[pod("ns1")]), pod("ns1"), None),
            (
                "the same twice",
                child("ns1", &[owner("Z", "ns1", "a"), owner("Z", "ns1", "a")]),
                pod("ns1"),
                Some(owner("Z", "ns1", "a")),
            ),
        ];
        for (name, references, absent, expected) in rows {
            assert_eq!(next_identity(&references, &absent), expected, "{name}");
        }
    }
}
