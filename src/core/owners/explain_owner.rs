//! Explains one object: what happens to it, its owners upward, its dependents downward.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster_plan::{self as plan, OwnerFinding, in_order};
use super::cluster_state::{ClusterState, Object};
use super::findings::{Finding, FindingKind, findings};
use super::{ActionWord, ClusterSnapshot, Dependent, ServedKind, Verdict};
use crate::model::{Identity, ObjectMeta};

/// The short names of kubectl for kinds that have owners, dependents or finalizers in most clusters.
const SHORT: [(&str, &str); 20] = [
    ("cj", "CronJob"),
    ("cm", "ConfigMap"),
    ("crd", "CustomResourceDefinition"),
    ("deploy", "Deployment"),
    ("ds", "DaemonSet"),
    ("ep", "Endpoints"),
    ("hpa", "HorizontalPodAutoscaler"),
    ("ing", "Ingress"),
    ("netpol", "NetworkPolicy"),
    ("no", "Node"),
    ("ns", "Namespace"),
    ("pdb", "PodDisruptionBudget"),
    ("po", "Pod"),
    ("pv", "PersistentVolume"),
    ("pvc", "PersistentVolumeClaim"),
    ("rc", "ReplicationController"),
    ("rs", "ReplicaSet"),
    ("sa", "ServiceAccount"),
    ("sts", "StatefulSet"),
    ("svc", "Service"),
];

/// What `kubegc controller why` shows about an object.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ClusterExplanation {
    pub object: Identity,
    /// What happens: `keep`, `wait`, or the word of a [`super::ActionWord`].
    pub decision: String,
    /// Why, as in plans.
    pub reason: String,
    /// If it is deleted: the finalizers of others, which hold the object after its deletion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<String>,
    /// What its deletion waits for: finalizers of others, and dependents. Absent if it is not being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Finding>,
    /// What else a plan finds about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// How many objects the API server deletes with it, whatever the policy is: the objects of a namespace, or those of the
    /// resource that a `CustomResourceDefinition` defines. Absent for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<usize>,
    pub owners: Vec<OwnerNode>,
    pub dependents: Vec<DependentNode>,
}

#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct OwnerNode {
    /// The reference to it, and its state.
    #[serde(flatten)]
    pub owner: OwnerFinding,
    /// Its owners; empty if it was named above already.
    pub owners: Vec<OwnerNode>,
}

#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DependentNode {
    pub object: Identity,
    /// It blocks the foreground deletion of its owner.
    pub blocking: bool,
    /// Its dependents; empty if it was named above already.
    pub dependents: Vec<DependentNode>,
}

/// Explains an object. `None` if no list has it.
pub fn explain(snapshot: &ClusterSnapshot, object: &Identity) -> Option<ClusterExplanation> {
    let cluster = ClusterState::new(snapshot);
    let object = cluster.objects.get(cluster.position(object)?)?;
    let verdict = cluster.verdict(object);
    let by_rule = snapshot.selected.get(&object.identity.uid).filter(|_| !object.meta().is_deleting());
    let (decision, reason) = match (plan::action(&cluster, object, &verdict), &verdict) {
        (Some(action), _) => (action.action.to_string(), action.reason),
        (None, Verdict::Keep(_)) if let Some(reason) = by_rule => (ActionWord::Delete.to_string(), reason.clone()),
        (None, Verdict::Keep(reason)) => ("keep".to_owned(), <&str>::from(reason).to_owned()),
        (None, _) => ("wait".to_owned(), "waits_for_dependents".to_owned()),
    };
    let is_deleted = decision == <&str>::from(ActionWord::Delete);
    let held_by = object.foreign_finalizers().filter(|_| is_deleted).map(str::to_owned).collect();
    let mut above = vec![object.identity.clone()];
    let owners = owners(&cluster, object, &mut above);
    let dependents = dependents(&cluster, &object.identity, &mut above);
    let of_object = findings(&cluster).into_iter().filter(|finding| finding.object == object.identity);
    let (mut deletion, findings): (Vec<_>, Vec<_>) = of_object.partition(|it| it.kind == FindingKind::BeingDeleted);
    let content = cluster.content(&object.identity).map(|objects| objects.len());
    let object = object.identity.clone();
    Some(ClusterExplanation {
        object,
        decision,
        reason,
        held_by,
        deletion: deletion.pop(),
        findings,
        content,
        owners,
        dependents,
    })
}

/// Returns the objects of a snapshot that a name means: `KIND/NAME`, where the kind may also be the resource or kubectl's
/// short name, in any case. Without a namespace, every object of that name.
pub fn find_objects(snapshot: &ClusterSnapshot, kind: &str, name: &str, namespace: Option<&str>) -> Vec<Identity> {
    let kind = SHORT.iter().find(|(short, _)| short.eq_ignore_ascii_case(kind)).map_or(kind, |(_, kind)| kind);
    let is_kind = |served: &ServedKind| {
        let short = format!("{}.{}", served.kind.kind, served.kind.group());
        let names = [served.resource.clone(), served.kind.kind.to_string(), served.kind.to_string(), short];
        names.iter().any(|known| known.eq_ignore_ascii_case(kind))
    };
    let in_namespace = |meta: &ObjectMeta| {
        meta.namespace.is_empty() || namespace.is_none_or(|namespace| *meta.namespace == *namespace)
    };
    let mut found = Vec::new();
    for listed in snapshot.resources.iter().filter(|listed| is_kind(&listed.served)) {
        let objects = listed.objects.as_ref().into_iter().flatten();
        let named = objects.filter(|meta| *meta.name == *name && in_namespace(meta));
        found.extend(named.map(|meta| meta.identity(&listed.served.kind)));
    }
    found.sort_by(in_order);
    found
}

/// `above` holds the objects on the way here, so that a circle ends.
fn owners(cluster: &ClusterState<'_>, object: &Object<'_>, above: &mut Vec<Identity>) -> Vec<OwnerNode> {
    let node = |owner: OwnerFinding| {
        // One that the reference does not mean is shown too: it has the uid.
        let meant = cluster.meant(&owner.reference, object).and_then(|meant| cluster.find(&meant));
        let known = meant.or_else(|| cluster.of_uid(&owner.reference.uid).next());
        let owners = known.filter(|known| !above.contains(&known.identity)).map(|known| {
            above.push(known.identity.clone());
            let owners = owners(cluster, known, above);
            above.pop();
            owners
        });
        OwnerNode { owner, owners: owners.unwrap_or_default() }
    };
    plan::owners(cluster, object).into_iter().map(node).collect()
}

fn dependents(cluster: &ClusterState<'_>, owner: &Identity, above: &mut Vec<Identity>) -> Vec<DependentNode> {
    let mut found = Vec::new();
    for Dependent { item, reference } in cluster.dependents(&owner.uid) {
        let named_by = cluster.of_uid(&item.identity.uid).filter(|it| it.meta().owners.contains(&reference));
        found.extend(named_by.map(|it| (it.identity.clone(), reference.blocks())));
    }
    found.sort_by(|(one, _), (other, _)| in_order(one, other));
    let node = |(object, blocking): (Identity, bool)| {
        let below = if above.contains(&object) {
            Vec::new()
        } else {
            above.push(object.clone());
            let below = dependents(cluster, &object, above);
            above.pop();
            below
        };
        DependentNode { object, blocking, dependents: below }
    };
    found.into_iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owners::cluster_plan::tests::{cluster, config_map, node, object};
    use crate::owners::{ListedResource, Propagation, predict_deletion};

    #[test]
    fn an_object_is_explained_with_its_owners_and_dependents() {
        let (top, middle, leaf) = (config_map("top"), config_map("middle"), config_map("leaf"));
        let snapshot = cluster(&[object(&top, &[]), object(&middle, &[&top]), object(&leaf, &[&middle])]);
        let found = explain(&snapshot, &middle).unwrap();
        assert_eq!((&*found.decision, &*found.reason), ("keep", "owner_exists"));
        assert_eq!(&*found.owners[0].owner.reference.name, "top");
        assert_eq!(found.dependents[0].object, leaf);
        let found = explain(&snapshot, &leaf).unwrap();
        assert_eq!(&*found.owners[0].owners[0].owner.reference.name, "top");
        assert_eq!(explain(&snapshot, &config_map("unknown")), None);
    }

    #[test]
    fn an_object_whose_deletion_waits_names_its_finalizers() {
        let held = config_map("held");
        let (identity, meta) = object(&held, &[]);
        let finalizers = vec!["example.com/backup".to_owned()];
        let since = Some(jiff::Timestamp::UNIX_EPOCH);
        let deleting = ObjectMeta { deletion_timestamp: since, finalizers, ..meta };
        let found = explain(&cluster(&[(identity, deleting)]), &held).unwrap();
        let deletion = found.deletion.unwrap();
        assert_eq!((deletion.finalizers, deletion.since), (vec!["example.com/backup".to_owned()], since));
        let kept = explain(&cluster(&[object(&held, &[])]), &held).unwrap();
        assert_eq!(kept.deletion, None);
    }

    #[test]
    fn an_object_that_a_rule_selects_is_explained_by_the_rule() {
        let old = config_map("old");
        let mut snapshot = cluster(&[object(&old, &[])]);
        snapshot.selected = [(old.uid.clone(), "rule old".to_owned())].into();
        let found = explain(&snapshot, &old).unwrap();
        assert_eq!((&*found.decision, &*found.reason), ("delete", "rule old"));
    }

    #[test]
    fn the_content_of_a_namespace_and_of_a_definition_is_counted() {
        let of = |kind: &str, version: &str, name: &str| Identity {
            kind: crate::model::ApiKind::new(version, kind),
            namespace: "".into(),
            name: name.into(),
            uid: crate::model::Uid::new(name),
        };
        let (namespace, pod) = (of("Namespace", "v1", "ns1"), config_map("a"));
        let definition = of("CustomResourceDefinition", "apiextensions.k8s.io/v1", "widgets.example.com");
        let widget = of("Widget", "example.com/v1", "w");
        let mut snapshot = cluster(&[object(&pod, &[]), object(&config_map("b"), &[])]);
        for it in [&namespace, &definition, &widget] {
            let resource = format!("{}s", it.kind.kind.to_lowercase());
            let served = ServedKind { kind: it.kind.clone(), resource, namespaced: false };
            let objects = crate::model::Seen::Seen(vec![object(it, &[]).1]);
            snapshot.resources.push(ListedResource {
                served,
                objects,
                namespaces: std::collections::BTreeMap::new(),
                content: Vec::new(),
            });
        }
        let content = |object: &Identity| explain(&snapshot, object).unwrap().content;
        assert_eq!([&namespace, &definition, &pod].map(content), [Some(2), Some(1), None]);
        // An object that is deleted by itself, or with two others, counts once.
        let deletion = |object: &Identity| crate::owners::ClusterAction {
            action: crate::owners::ActionWord::Delete,
            object: object.clone(),
            propagation: None,
            reason: String::new(),
            held_by: Vec::new(),
            content: content(object),
            owners: Vec::new(),
        };
        let counted = |objects: &[&Identity]| {
            let (actions, predicted) = (objects.iter().take(1), objects.iter().skip(1));
            let [actions, predicted] =
                [actions.map(|it| deletion(it)).collect(), predicted.map(|it| deletion(it)).collect()];
            let plan = crate::owners::ClusterPlan { actions, predicted, ..crate::owners::plan(&snapshot) };
            crate::owners::count_content(&plan, &snapshot)
        };
        assert_eq!(counted(&[&namespace]), 2);
        assert_eq!(counted(&[&namespace, &namespace]), 2);
        assert_eq!(counted(&[&pod, &namespace]), 1);
        assert_eq!(counted(&[&namespace, &definition, &widget]), 2);
        assert_eq!(counted(&[&pod]), 0);
        // What others own of it follows.
        let (below, owned) = (config_map("below"), config_map("owned"));
        for (identity, owner) in [(&owned, &widget), (&below, &owned)] {
            let maps = snapshot.resources.iter_mut().find(|listed| *listed.served.kind.kind == *"ConfigMap").unwrap();
            let crate::model::Seen::Seen(objects) = &mut maps.objects else { panic!("it is listed") };
            objects.push(object(identity, &[owner]).1);
        }
        snapshot.served.extend(snapshot.resources.iter().map(|listed| listed.served.clone()));
        let follows = |object| {
            let actions = predict_deletion(&snapshot, object, Propagation::Background).unwrap();
            actions.into_iter().map(|action| action.object.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!([&definition, &namespace].map(follows), [vec!["owned", "below"], vec![]]);
    }

    #[test]
    fn a_circle_of_owners_ends() {
        let (a, b) = (config_map("a"), config_map("b"));
        let snapshot = cluster(&[object(&a, &[&b]), object(&b, &[&a])]);
        let found = explain(&snapshot, &a).unwrap();
        assert_eq!((found.owners.len(), found.owners[0].owners.len()), (1, 1));
        assert_eq!(found.owners[0].owners[0].owners.len(), 0);
        assert_eq!(found.dependents[0].dependents[0].dependents.len(), 0);
        assert_eq!(found.findings, crate::owners::plan(&snapshot).findings[..1]);
        assert_eq!(found.findings[0].kind, FindingKind::OwnerCycle);
    }

    #[test]
    fn objects_are_found_by_kind_or_resource_ignoring_case() {
        let (one, other) = (config_map("x"), node("x"));
        let snapshot = cluster(&[object(&one, &[]), object(&other, &[])]);
        for kind in ["ConfigMap", "configmaps", "CONFIGMAP", "ConfigMap.v1", "cm"] {
            assert_eq!(find_objects(&snapshot, kind, "x", Some("ns1")), std::slice::from_ref(&one), "{kind}");
        }
        assert_eq!(find_objects(&snapshot, "ConfigMap", "x", Some("ns2")), []);
        assert_eq!(find_objects(&snapshot, "node", "x", Some("ns2")), [other]);
        assert_eq!(find_objects(&snapshot, "ConfigMap", "y", None), []);
    }
}
