//! Plans of small clusters, and the forests that kube-controller-manager 1.36.2 collected.

mod forests;
mod properties;

use jiff::Timestamp;

use super::*;
use crate::model::{ApiKind, FOREGROUND, ORPHAN, ObjectMeta, Seen, Uid};
use crate::owners::{FindingKind, ListedResource, OwnerAnswer, OwnerRead, ServedKind, ServedKinds, UnavailableGroup};
use crate::testing::any_forest::KINDS;

/// A cluster that serves all but the last of [`KINDS`].
pub(in crate::owners) fn cluster(objects: &[(Identity, ObjectMeta)]) -> ClusterSnapshot {
    let served = |&(api_version, kind, namespaced): &(&str, &str, bool)| ServedKind {
        kind: ApiKind::new(api_version, kind),
        resource: format!("{}s", kind.to_lowercase()),
        namespaced,
    };
    let served: Vec<_> = KINDS[..4].iter().map(served).collect();
    let of = |kind: &ApiKind| {
        let of_kind = objects.iter().filter(|(identity, _)| identity.kind == *kind);
        Seen::Seen(of_kind.map(|(_, meta)| meta.clone()).collect())
    };
    ClusterSnapshot {
        selected: std::collections::BTreeMap::new(),
        rule_errors: Vec::new(),
        conditions: std::collections::BTreeMap::new(),
        taken_at: Timestamp::UNIX_EPOCH,
        server: "https://api.example".to_owned(),
        unavailable: Vec::new(),
        resources: served
            .iter()
            .map(|served| ListedResource {
                served: served.clone(),
                objects: of(&served.kind),
                namespaces: std::collections::BTreeMap::new(),
                content: Vec::new(),
            })
            .collect(),
        served,
        owners: Vec::new(),
    }
}

fn identity(api_version: &str, kind: &str, namespace: &str, name: &str) -> Identity {
    let uid = Uid::new(&format!("{name}-uid"));
    Identity { kind: ApiKind::new(api_version, kind), namespace: namespace.into(), name: name.into(), uid }
}

pub(in crate::owners) fn config_map(name: &str) -> Identity {
    identity("v1", "ConfigMap", "ns1", name)
}

pub(in crate::owners) fn node(name: &str) -> Identity {
    identity("v1", "Node", "", name)
}

fn to(owner: &Identity) -> OwnerReference {
    let Identity { kind, name, uid, .. } = owner.clone();
    OwnerReference { kind, name, uid, controller: None, blocking: Some(true) }
}

pub(in crate::owners) fn object(identity: &Identity, owners: &[&Identity]) -> (Identity, ObjectMeta) {
    let Identity { namespace, name, uid, .. } = identity.clone();
    let owners = owners.iter().map(|owner| to(owner)).collect();
    let meta = ObjectMeta { namespace, name, uid, owners, ..ObjectMeta::default() };
    (identity.clone(), meta)
}

fn deleting(identity: &Identity, finalizers: &[&str]) -> (Identity, ObjectMeta) {
    let (identity, meta) = object(identity, &[]);
    let finalizers = finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect();
    (identity, ObjectMeta { deletion_timestamp: Some(Timestamp::UNIX_EPOCH), finalizers, ..meta })
}

/// Adds the answer of a live read for every doubtful owner.
fn read(snapshot: &mut ClusterSnapshot, answer: &OwnerAnswer) {
    let read = |owner| OwnerRead { owner, read_at: snapshot.taken_at, answer: answer.clone() };
    snapshot.owners = doubtful_owners(snapshot).into_iter().map(read).collect();
}

fn names(actions: &[ClusterAction]) -> Vec<String> {
    actions.iter().map(|action| format!("{} {}", action.action, action.object.name)).collect()
}

fn finding_kinds(plan: &ClusterPlan) -> Vec<FindingKind> {
    plan.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn only_a_live_read_proves_an_owner_absent() {
    let (child, owner) = (config_map("child"), config_map("owner"));
    let mut snapshot = cluster(&[object(&child, &[&owner])]);
    assert_eq!(doubtful_owners(&snapshot), std::slice::from_ref(&owner));
    // Not read: kept, and reported.
    let kept = plan(&snapshot);
    assert_eq!((names(&kept.actions), &*kept.kept[0].reason), (vec![], "owner_unverified"));
    assert_eq!(finding_kinds(&kept), [FindingKind::OwnerUnverified]);
    read(&mut snapshot, &OwnerAnswer::Unavailable("timeout".to_owned()));
    assert_eq!(plan(&snapshot).kept[0].owners[0].evidence, "timeout");
    assert_eq!(plan(&snapshot).errors, ["timeout"]);
    read(&mut snapshot, &OwnerAnswer::Exists { waits_for_dependents: false });
    assert_eq!(plan(&snapshot).kept[0].reason, "owner_exists");
    for answer in [OwnerAnswer::NotFound, OwnerAnswer::OtherUid(Uid::new("new"))] {
        read(&mut snapshot, &answer);
        let deletes = plan(&snapshot);
        assert_eq!((names(&deletes.actions), deletes.kept.len()), (vec!["delete child".to_owned()], 0));
    }
}

#[test]
fn what_a_rule_selects_is_deleted_with_its_dependents() {
    let (map, child, held) = (config_map("map"), config_map("child"), config_map("held"));
    let misnamed = Identity { name: "other".into(), ..map.clone() };
    let mut snapshot = cluster(&[
        object(&map, &[]),
        object(&child, &[&map]),
        object(&config_map("misnames"), &[&misnamed]),
        deleting(&held, &["example.com/hold"]),
    ]);
    snapshot.selected = [map, held].map(|it| (it.uid, "rule old".to_owned())).into();
    let plan = plan(&snapshot);
    assert_eq!((names(&plan.actions), &*plan.actions[0].reason), (vec!["delete map".to_owned()], "rule old"));
    assert_eq!(names(&plan.predicted), ["delete child", "delete misnames"]);
}

#[test]
fn a_plan_shows_the_evidence_of_each_owner_state() {
    let (child, owner) = (config_map("child"), config_map("owner"));
    let mut snapshot = cluster(&[object(&child, &[&owner])]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    let [action] = &plan(&snapshot).actions[..] else { panic!("one action") };
    assert_eq!((&*action.reason, action.propagation), ("owners_absent", Some(Propagation::Background)));
    assert_eq!(action.owners[0].state, "absent");
    let expected = "the API server answered NotFound for ConfigMap.v1/owner in namespace ns1 at 1970-01-01T00:00:00Z";
    assert_eq!(action.owners[0].evidence, expected);
}

#[test]
fn what_follows_from_a_deletion_is_predicted_in_waves() {
    let (absent, a, b, c) = (config_map("absent"), config_map("a"), config_map("b"), config_map("c"));
    let mut snapshot = cluster(&[object(&a, &[&absent]), object(&b, &[&a]), object(&c, &[&b])]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    let plan = plan(&snapshot);
    assert_eq!(names(&plan.actions), ["delete a"]);
    assert_eq!(names(&plan.predicted), ["delete b", "delete c"]);
    assert_eq!(plan.predicted[0].owners[0].evidence, "deleted by an earlier action");
}

#[test]
fn an_objects_deletion_is_predicted_for_each_policy() {
    let (owner, a, b, other) = (config_map("owner"), config_map("a"), config_map("b"), config_map("other"));
    let objects = [object(&owner, &[]), object(&a, &[&owner]), object(&b, &[&owner, &other]), object(&other, &[])];
    let snapshot = cluster(&objects);
    let predicted = |propagation| names(&predict_deletion(&snapshot, &owner, propagation).unwrap());
    assert_eq!(predicted(Propagation::Background), ["delete a", "drop_references b"]);
    assert_eq!(predicted(Propagation::Foreground), ["delete a", "drop_references b", "end_foreground owner"]);
    assert_eq!(predicted(Propagation::Orphan), ["orphan owner"]);
    assert_eq!(predict_deletion(&snapshot, &config_map("unknown"), Propagation::Background), None);
}

#[test]
fn objects_with_an_unserved_owner_kind_are_kept() {
    let child = config_map("child");
    let old = identity("apps/v1beta1", "Deployment", "ns1", "web");
    let list = identity("v1", "ConfigMapList", "ns1", "web");
    let snapshot = cluster(&[object(&child, &[&old]), object(&config_map("other"), &[&list])]);
    assert_eq!(doubtful_owners(&snapshot), []);
    let plan = plan(&snapshot);
    assert_eq!(finding_kinds(&plan), [FindingKind::KindNotServed; 2]);
    assert_eq!(plan.kept[0].reason, "owner_kind_not_served");
    let evidence = "the API server does not serve Deployment.v1beta1.apps; it serves apps/v1";
    assert_eq!(plan.kept[0].owners[0].evidence, evidence);
}

#[test]
fn a_kind_with_failed_discovery_is_unverified() {
    let old = identity("apps/v2", "Deployment", "ns1", "web");
    let mut snapshot = cluster(&[object(&config_map("child"), &[&old])]);
    let cause = "503 Service Unavailable".to_owned();
    snapshot.unavailable = vec![UnavailableGroup { api_version: "apps/v2".to_owned(), cause }];
    snapshot.resources[2].objects = Seen::NotSeen("forbidden".to_owned());
    let plan = plan(&snapshot);
    assert_eq!(plan.kept[0].reason, "owner_unverified");
    assert_eq!(
        plan.errors,
        ["cannot list nodes (Node.v1): forbidden", "discovery of apps/v2: 503 Service Unavailable"]
    );
}

#[test]
fn only_a_lower_case_kind_is_the_same_kind() {
    let owner = config_map("owner");
    for (kind, is_known) in [("configmap", true), ("CONFIGMAP", false), ("Configmap", false), ("configmaps", false)] {
        let reference = Identity { kind: ApiKind::new("v1", kind), ..owner.clone() };
        let mut snapshot = cluster(&[object(&owner, &[]), object(&config_map("child"), &[&reference])]);
        read(&mut snapshot, &OwnerAnswer::Exists { waits_for_dependents: false });
        let reason = if is_known { "owner_exists" } else { "owner_kind_not_served" };
        assert_eq!(plan(&snapshot).kept[0].reason, reason, "{kind}");
        let served = ServedKinds::from(&snapshot);
        assert_eq!(served.find(&reference.kind).map(|served| &*served.kind.kind), is_known.then_some("ConfigMap"));
    }
}

#[test]
fn an_owner_in_another_namespace_counts_as_absent() {
    let owner = identity("v1", "ConfigMap", "ns2", "owner");
    let mut snapshot = cluster(&[object(&owner, &[]), object(&config_map("child"), &[&owner])]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    let plan = plan(&snapshot);
    assert_eq!(names(&plan.actions), ["delete child"]);
    assert_eq!(finding_kinds(&plan), [FindingKind::WrongNamespace]);
    assert_eq!(plan.findings[0].found.as_ref(), Some(&owner));
    assert!(!plan.actions[0].owners[0].is_stale(), "it has the uid of the reference");
    assert_eq!(plan.actions[0].owners[0].found, Some(Box::new(owner)));
}

#[test]
fn an_action_names_the_object_that_a_reference_may_mean() {
    let (child, owner) = (config_map("child"), config_map("owner"));
    let found = |snapshot: &ClusterSnapshot| plan(snapshot).actions[0].owners[0].found.as_deref().cloned();
    let mut snapshot = cluster(&[object(&child, &[&owner])]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    assert_eq!(found(&snapshot), None);
    read(&mut snapshot, &OwnerAnswer::OtherUid(Uid::new("new")));
    assert_eq!(found(&snapshot), Some(Identity { uid: Uid::new("new"), ..owner.clone() }));
    let renamed = Identity { name: "renamed".into(), ..owner.clone() };
    let mut snapshot = cluster(&[object(&child, &[&owner]), object(&renamed, &[])]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    assert_eq!(found(&snapshot), Some(renamed));
}

#[test]
fn an_object_that_others_hold_is_marked() {
    let (child, owner) = (config_map("child"), config_map("owner"));
    let (_, meta) = object(&child, &[&owner]);
    let finalizers = ["example.com/hold", "foregroundDeletion"].map(str::to_owned).to_vec();
    let mut snapshot = cluster(&[(child, ObjectMeta { finalizers, ..meta })]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    let plan = plan(&snapshot);
    assert_eq!(
        (names(&plan.actions), &plan.actions[0].held_by[..]),
        (vec!["delete child".to_owned()], &["example.com/hold".to_owned()][..])
    );
}

/// A tenant can make a chain of any length. With a look at all for each of its ends this would take minutes.
#[test]
fn a_long_chain_of_owners_is_no_cycle() {
    let names: Vec<_> = (0..20_000).map(|number| config_map(&format!("link-{number}"))).collect();
    let links = names.windows(2).map(|pair| object(&pair[1], &[&pair[0]]));
    let chain: Vec<_> = std::iter::once(object(&names[0], &[])).chain(links).collect();
    assert_eq!(finding_kinds(&plan(&cluster(&chain))), []);
}

#[test]
fn owners_in_a_cycle_are_a_finding() {
    let [a, b, c, itself, above, below] = ["a", "b", "c", "itself", "above", "below"].map(config_map);
    let elsewhere = Identity { uid: Uid::new("elsewhere"), ..identity("v1", "ConfigMap", "ns2", "a") };
    let objects = [
        object(&a, &[&c]),
        object(&b, &[&a, &above]),
        object(&c, &[&b]),
        object(&itself, &[&itself]),
        object(&above, &[]),
        object(&below, &[&a]),
        object(&elsewhere, &[&elsewhere]),
    ];
    let mut snapshot = cluster(&objects);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    let plan = plan(&snapshot);
    let in_cycles = plan.findings.iter().filter(|finding| finding.kind == FindingKind::OwnerCycle);
    let in_cycles: Vec<_> =
        in_cycles.map(|finding| format!("{}/{}", finding.object.namespace, finding.object.name)).collect();
    assert_eq!(in_cycles, ["ns1/a", "ns1/b", "ns1/c", "ns1/itself", "ns2/a"]);
}

#[test]
fn a_uid_with_another_kind_counts_as_absent() {
    let owner = config_map("owner");
    let wrong = Identity { kind: ApiKind::new("apps/v1", "Deployment"), ..owner.clone() };
    let mut snapshot = cluster(&[object(&owner, &[]), object(&config_map("child"), &[&wrong])]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    let plan = plan(&snapshot);
    assert_eq!(names(&plan.actions), ["delete child"]);
    assert_eq!(finding_kinds(&plan), [FindingKind::WrongOwner]);
}

#[test]
fn cluster_scoped_objects_with_a_namespaced_owner_are_kept() {
    let snapshot = cluster(&[object(&node("n"), &[&config_map("owner")])]);
    assert_eq!(doubtful_owners(&snapshot), []);
    let plan = plan(&snapshot);
    assert_eq!((&*plan.kept[0].reason, finding_kinds(&plan)), ("owner_namespaced", vec![FindingKind::NamespacedOwner]));
}

fn is_unlisted<'a>(snapshot: &'a mut ClusterSnapshot, kind: &str) -> &'a mut ListedResource {
    let listed = snapshot.resources.iter_mut().find(|listed| &*listed.served.kind.kind == kind).unwrap();
    listed.objects = Seen::NotSeen("500".to_owned());
    listed
}

/// No object of the cluster scope has a namespaced owner, and the list of a namespace shows who has dependents there.
#[test]
fn finalizers_without_unknown_dependents_do_not_wait() {
    let (owner, other, of_cluster) = (config_map("owner"), config_map("other"), node("machine"));
    let objects = [&owner, &other, &of_cluster].map(|object| deleting(object, &[ORPHAN]));
    let mut snapshot = cluster(&objects);
    is_unlisted(&mut snapshot, "Node");
    assert_eq!(names(&plan(&snapshot).actions), ["orphan other", "orphan owner"]);
    let mut snapshot = cluster(&objects);
    is_unlisted(&mut snapshot, "Deployment").namespaces.insert("ns1".into(), [other.uid].into());
    assert_eq!(names(&plan(&snapshot).actions), ["orphan owner"]);
    is_unlisted(&mut snapshot, "Deployment").namespaces.clear();
    assert_eq!(names(&plan(&snapshot).actions), [""; 0]);
}

/// As `run` and `collect` do: a dependent that is not listed would be deleted, or would not delay the deletion.
#[test]
fn finalizers_wait_for_resources_without_a_list() {
    let (first, second, child) = (config_map("first"), config_map("second"), config_map("child"));
    let objects =
        [deleting(&first, &[FOREGROUND]), deleting(&second, &[ORPHAN]), object(&child, &[&config_map("gone")])];
    let mut snapshot = cluster(&objects);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    assert_eq!(names(&plan(&snapshot).actions), ["delete child", "end_foreground first", "orphan second"]);
    is_unlisted(&mut snapshot, "Deployment");
    let groups = ["example.com/v1", "custom.metrics.k8s.io/v1"];
    let unavailable = |group: &str| UnavailableGroup { api_version: group.to_owned(), cause: "503".to_owned() };
    snapshot.unavailable = groups.map(unavailable).to_vec();
    let held = plan(&snapshot);
    assert_eq!((names(&held.actions), names(&held.predicted)), (vec!["delete child".to_owned()], vec![]));
    let waits: Vec<_> = held.findings.iter().map(|it| (&*it.object.name, it.waits_for_lists.join(" "))).collect();
    let lists = || "deployments.apps example.com/v1".to_owned();
    assert_eq!(waits, [("first", lists()), ("second", lists())]);
    assert_eq!(held.kept[0].reason, "dependents_not_listed");
    let unguarded = plan_under(&snapshot, &OwnerGuards::none());
    assert_eq!(names(&unguarded.actions), ["delete child", "end_foreground first", "orphan second"]);
}

/// The API server ends no namespace whose content it cannot list.
#[test]
fn what_a_namespace_owns_waits_for_lists_of_its_content() {
    let namespace = identity("v1", "Namespace", "", "ns1");
    let mut snapshot = cluster(&[object(&namespace, &[&node("gone")]), object(&node("of-namespace"), &[&namespace])]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    let predicted = |snapshot: &ClusterSnapshot| names(&plan(snapshot).predicted);
    assert_eq!(predicted(&snapshot), ["delete of-namespace"]);
    is_unlisted(&mut snapshot, "Deployment");
    assert_eq!(predicted(&snapshot), [""; 0]);
}

#[test]
fn a_namespace_in_deletion_names_what_is_in_it() {
    let namespace = identity("v1", "Namespace", "", "ns1");
    let (held, meta) = object(&config_map("held"), &[]);
    let held = (held, ObjectMeta { finalizers: vec!["example.com/hold".to_owned()], ..meta });
    let elsewhere = object(&identity("v1", "ConfigMap", "ns2", "other"), &[]);
    let mut snapshot = cluster(&[deleting(&namespace, &[]), held, object(&config_map("plain"), &[]), elsewhere]);
    let [finding] = &plan(&snapshot).findings[..] else { panic!("one finding") };
    let [maps] = &finding.content[..] else { panic!("one kind: {finding:?}") };
    assert_eq!(
        (&*maps.kind, maps.objects, &maps.finalizers[..]),
        ("ConfigMap.v1", 2, &["example.com/hold".to_owned()][..])
    );
    assert_eq!(maps.held, [("example.com/hold".to_owned(), 1)].into());
    assert_eq!(finding.waits_for_lists, [""; 0]);
    is_unlisted(&mut snapshot, "Deployment");
    assert_eq!(plan(&snapshot).findings[0].waits_for_lists, ["deployments.apps"]);
}

/// A list of all namespaces may fail for an object of another one.
#[test]
fn a_namespace_in_deletion_names_only_what_cannot_be_listed_there() {
    let namespace = identity("v1", "Namespace", "", "ns1");
    let mut snapshot = cluster(&[deleting(&namespace, &[]), object(&node("of-namespace"), &[&namespace])]);
    let deployments = is_unlisted(&mut snapshot, "Deployment");
    deployments.namespaces.insert("ns1".into(), [].into());
    let found = |snapshot: &ClusterSnapshot| plan(snapshot).findings[0].clone();
    assert_eq!((found(&snapshot).waits_for_lists, found(&snapshot).content), (vec![], vec![]));
    let web = object(&identity("apps/v1", "Deployment", "ns1", "web"), &[]);
    is_unlisted(&mut snapshot, "Deployment").content = vec![web.1];
    let content = &found(&snapshot).content;
    assert_eq!((&*content[0].kind, content[0].objects), ("Deployment.v1.apps", 1));
}

#[test]
fn a_namespace_in_deletion_names_its_conditions_and_groups_that_are_unknown() {
    let namespace = identity("v1", "Namespace", "", "ns1");
    let mut snapshot = cluster(&[deleting(&namespace, &[])]);
    let (condition, group) = ("NamespaceDeletionDiscoveryFailure: one failing", "metrics.k8s.io/v1beta1");
    snapshot.conditions.insert(namespace.uid, vec![condition.to_owned()]);
    snapshot.unavailable = vec![UnavailableGroup { api_version: group.to_owned(), cause: "stale".to_owned() }];
    let [finding] = &plan(&snapshot).findings[..] else { panic!("one finding") };
    assert_eq!((&*finding.conditions, &*finding.unavailable[0].api_version), (&[condition.to_owned()][..], group));
    assert_eq!(finding.waits_for_lists, [""; 0]);
}

/// No namespace ends while a group is unknown, even if its objects have no owners.
#[test]
fn what_a_namespace_owns_waits_for_unknown_groups() {
    let namespace = identity("v1", "Namespace", "", "ns1");
    let mut snapshot = cluster(&[object(&namespace, &[&node("gone")]), object(&node("of-namespace"), &[&namespace])]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    let group = "metrics.k8s.io/v1beta1".to_owned();
    snapshot.unavailable = vec![UnavailableGroup { api_version: group, cause: "stale".to_owned() }];
    assert_eq!(names(&plan(&snapshot).predicted), [""; 0]);
}

#[test]
fn a_deletion_in_progress_names_what_it_waits_for() {
    let (owner, child) = (config_map("owner"), config_map("child"));
    let held = deleting(&config_map("held"), &["example.com/hold"]);
    let (child, mut meta) = object(&child, &[&owner]);
    meta.finalizers = vec!["example.com/hold".to_owned()];
    meta.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
    let plan = plan(&cluster(&[deleting(&owner, &[FOREGROUND]), held, (child.clone(), meta)]));
    assert_eq!(names(&plan.actions), [""; 0]);
    assert_eq!(finding_kinds(&plan), [FindingKind::BeingDeleted; 3]);
    let [of_child, of_held, of_owner] = &plan.findings[..] else { panic!("three findings") };
    assert_eq!((&*of_child.object.name, &of_child.finalizers[..]), ("child", &["example.com/hold".to_owned()][..]));
    assert_eq!((&*of_held.object.name, of_held.since), ("held", Some(Timestamp::UNIX_EPOCH)));
    assert_eq!((&*of_owner.object.name, &of_owner.waits_for[..]), ("owner", &[child][..]));
}

#[test]
fn an_object_that_two_groups_serve_counts_once() {
    let as_deployment = Identity { kind: ApiKind::new("apps/v1", "Deployment"), ..config_map("twice") };
    let owner = config_map("owner");
    let mut snapshot = cluster(&[object(&config_map("twice"), &[&owner]), object(&as_deployment, &[&owner])]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    assert_eq!(names(&plan(&snapshot).actions), ["delete twice"]);
}

/// An aggregated API mirrors objects with their uids.
#[test]
fn an_object_whose_mirror_has_other_owners_is_kept() {
    let mirror = Identity { kind: ApiKind::new("apps/v1", "Deployment"), ..config_map("twice") };
    let (owner, gone) = (config_map("owner"), config_map("gone"));
    for (ours, theirs) in [(vec![&owner], vec![&gone]), (vec![], vec![&gone]), (vec![&gone], vec![])] {
        let objects = [object(&owner, &[]), object(&config_map("twice"), &ours), object(&mirror, &theirs)];
        let mut snapshot = cluster(&objects);
        read(&mut snapshot, &OwnerAnswer::NotFound);
        let actions = plan(&snapshot).actions;
        assert!(!names(&actions).contains(&"delete twice".to_owned()), "{ours:?} {theirs:?}");
    }
}

#[test]
fn what_has_no_uid_is_kept() {
    let nameless = |name: &str| Identity { uid: Uid::new(""), ..config_map(name) };
    let gone = config_map("gone");
    let objects = [object(&nameless("a"), &[&gone]), object(&config_map("b"), &[&gone, &nameless("owner")])];
    let mut snapshot = cluster(&objects);
    read(&mut snapshot, &OwnerAnswer::OtherUid(Uid::new("new")));
    assert_eq!(names(&plan(&snapshot).actions), [""; 0]);
}

#[test]
fn snapshots_and_plans_survive_a_json_round_trip() {
    let mut snapshot =
        cluster(&[object(&config_map("child"), &[&config_map("owner")]), deleting(&node("n"), &["x/y"])]);
    read(&mut snapshot, &OwnerAnswer::OtherUid(Uid::new("new")));
    let text = serde_json::to_string(&snapshot).unwrap();
    let again: ClusterSnapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(plan(&again), plan(&snapshot));
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    let plan = plan(&snapshot);
    assert_eq!(serde_json::from_str::<ClusterPlan>(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
}

/// An aggregated API shows an object of its own with the uid of another, as Calico its profiles.
#[test]
fn objects_that_share_a_uid_are_judged_separately() {
    let (absent, mut twin) = (config_map("absent"), config_map("twin"));
    let first = config_map("first");
    twin.uid = first.uid.clone();
    let mut snapshot = cluster(&[object(&first, &[&absent]), object(&twin, &[])]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    let plan = plan(&snapshot);
    assert_eq!(names(&plan.actions), [""; 0], "one request may delete both");
    assert_eq!((&*plan.kept[0].object.name, &*plan.kept[0].reason), ("first", "shares_uid"));
    let shared: Vec<_> = plan.findings.iter().filter(|finding| finding.kind == FindingKind::SharedUid).collect();
    assert_eq!((shared.len(), shared[0].found.is_some()), (1, true));
    let both = cluster(&[object(&first, &[&absent]), object(&twin, &[&absent])]);
    let mut both = ClusterSnapshot { owners: Vec::new(), ..both };
    read(&mut both, &OwnerAnswer::NotFound);
    assert_eq!(super::plan(&both).actions.len(), 2, "both are to be deleted");
}

/// A Project is its Namespace.
#[test]
fn a_mirrored_object_counts_once_under_the_core_group() {
    let absent = node("absent");
    let namespace = config_map("team-a");
    let mirror = Identity { kind: ApiKind::new("apps/v1", "Deployment"), ..namespace.clone() };
    let mut snapshot = cluster(&[object(&mirror, &[&absent]), object(&namespace, &[&absent])]);
    read(&mut snapshot, &OwnerAnswer::NotFound);
    let plan = plan(&snapshot);
    assert_eq!(names(&plan.actions), ["delete team-a"]);
    assert_eq!(plan.actions[0].object.kind, namespace.kind);
    assert_eq!(explain_decision(&snapshot, &mirror), "delete");
}

fn explain_decision(snapshot: &ClusterSnapshot, object: &Identity) -> String {
    crate::owners::explain(snapshot, object).unwrap().decision
}
