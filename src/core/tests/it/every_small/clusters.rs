//! The families of clusters. No namespace and no resource is in deletion, no rule selects an object, and no two objects have one uid.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use kubegc_core::model::{ApiKind, FOREGROUND, ORPHAN, ObjectMeta, OwnerReference, Uid};
use kubegc_core::owners::{
    ClusterAction, ClusterSnapshot, ListedResource, OwnerAnswer, OwnerGuards, OwnerRead, ServedKind, UnavailableGroup,
    plan_under,
};
use serde_json::json;

use super::cluster_rules::steps;
use super::play;

const HELD: &str = "example.com/hold";
/// The finalizers of an object, and whether it is in deletion.
type State = (&'static [&'static str], bool);
const STATES: [State; 7] = [
    (&[], false),
    (&[HELD], true),
    (&[ORPHAN], true),
    (&[FOREGROUND], true),
    (&[HELD], false),
    (&[ORPHAN], false),
    (&[FOREGROUND], false),
];

/// Three objects of one kind in every state, each of which may own each other one, blocked by it or not, and have an absent owner.
#[test]
fn three() {
    forests("three", &STATES, &["a", "b", "c"], &[None, Some(false), Some(true)]);
}

/// Four objects, in deletion in each way or not, each of which may own each other one, blocked by it, and have an absent owner.
#[test]
fn four() {
    forests("four", &STATES[..4], &["a", "b", "c", "d"], &[None, Some(true)]);
}

/// Objects that differ in their names alone are the same, so they are in the order of their states.
fn forests(family: &str, states: &[State], names: &[&str], blocks: &[Option<bool>]) {
    let place = |at| states.len().pow(at as u32);
    let digits = |number| (0..names.len()).map(|at| number / place(at) % states.len()).collect::<Vec<_>>();
    let all: Vec<_> = (0..place(names.len())).map(digits).filter(|digits| digits.is_sorted()).collect();
    let all: Vec<_> = all.iter().collect();
    play(family, |choices| {
        let of_all = choices.of(&all);
        let object = |(name, state): (&&str, &usize)| {
            let owners = names.iter().chain(&["absent"]).filter(|owner| *owner != name);
            let owners = owners.filter_map(|owner| Some(reference("ConfigMap", owner, choices.of(blocks)?)));
            object("ns1", name, states[*state], owners.collect())
        };
        check(&cluster(names.iter().zip(of_all).map(object).collect()), true)
    });
}

/// What references mean: an object in every state and scope with two of each form, a dependent, and resources that cannot be listed.
#[test]
fn references() {
    const FORMS: &str = "- ConfigMap/exists ConfigMap/waits ConfigMap/elsewhere Node/exists Node/node Thing/exists ConfigMap/absent \
        ConfigMap/other ConfigMap/unavailable ConfigMap/not-requested ConfigMap/not-read ConfigMap/read ConfigMap/read-waits ConfigMap/ \
        ConfigMap/it";
    let forms: Vec<_> = FORMS.split(' ').map(|form| form.split_once('/')).collect();
    play("references", |choices| {
        let references = [choices.of(&forms), choices.of(&forms)];
        let owners = references.into_iter().flatten().map(|(kind, name)| reference(kind, name, true)).collect();
        let (namespace, state) = (choices.of(&["ns1", ""]), choices.of(&STATES));
        let it = ObjectMeta { left_out_owners: choices.of(&[0, 1]), ..object(namespace, "it", state, owners) };
        let dependent = choices.of(&[None, Some((STATES[0], true)), Some((STATES[0], false)), Some((STATES[3], true))]);
        let dependent = dependent.map(|(state, blocks)| {
            let kind = if namespace.is_empty() { "Node" } else { "ConfigMap" };
            object("ns1", "dependent", state, vec![reference(kind, "it", blocks)])
        });
        let others = [
            object("ns1", "exists", STATES[0], Vec::new()),
            object("ns1", "waits", STATES[3], Vec::new()),
            object("ns2", "elsewhere", STATES[0], Vec::new()),
            object("", "node", STATES[4], Vec::new()),
        ];
        let mut cluster = cluster([it].into_iter().chain(dependent).chain(others).collect());
        match choices.of(&["", "Secret", "Volume", "gone/v1"]) {
            "" => {}
            "gone/v1" => {
                cluster.unavailable =
                    vec![UnavailableGroup { api_version: "gone/v1".to_owned(), cause: String::new() }];
            }
            unlisted => cluster.resources.push(resource(unlisted, unlisted == "Secret", None)),
        }
        check(&cluster, choices.is())
    });
}

/// A reference to an object whose uid is its name.
fn reference(kind: &str, name: &str, blocks: bool) -> OwnerReference {
    let (kind, name, uid) =
        (ApiKind::new("v1", kind), if name.is_empty() { "empty" } else { name }.into(), Uid::new(name));
    OwnerReference { kind, name, uid, controller: None, blocking: Some(blocks) }
}

fn object(namespace: &str, name: &str, (finalizers, is_deleting): State, owners: Vec<OwnerReference>) -> ObjectMeta {
    let deletion_timestamp = is_deleting.then_some(Timestamp::UNIX_EPOCH);
    let finalizers = finalizers.iter().map(|it| (*it).to_owned()).collect();
    let (namespace, name, uid) = (namespace.into(), name.into(), Uid::new(name));
    ObjectMeta { namespace, name, uid, deletion_timestamp, finalizers, owners, ..ObjectMeta::default() }
}

fn resource(kind: &str, namespaced: bool, objects: Option<Vec<ObjectMeta>>) -> ListedResource {
    let served = ServedKind { kind: ApiKind::new("v1", kind), resource: kind.to_lowercase(), namespaced };
    ListedResource { served, objects: super::seen(objects), namespaces: BTreeMap::new(), content: Vec::default() }
}

/// A cluster with these objects, config maps if they have a namespace and nodes if not, and with the answers to reads of owners.
fn cluster(objects: Vec<ObjectMeta>) -> ClusterSnapshot {
    static EMPTY: LazyLock<ClusterSnapshot> = LazyLock::new(|| {
        let empty = json!({ "taken_at": Timestamp::UNIX_EPOCH, "server": "", "served": [], "resources": [] });
        serde_json::from_value(empty).unwrap()
    });
    let (nodes, maps) = objects.into_iter().partition(|it| it.namespace.is_empty());
    let resources = vec![resource("ConfigMap", true, Some(maps)), resource("Node", false, Some(nodes))];
    let answers = [
        ("Node", "", "exists", OwnerAnswer::NotFound),
        ("ConfigMap", "ns1", "absent", OwnerAnswer::NotFound),
        ("ConfigMap", "ns1", "elsewhere", OwnerAnswer::NotFound),
        ("ConfigMap", "ns1", "other", OwnerAnswer::OtherUid(Uid::new("another"))),
        ("ConfigMap", "ns1", "unavailable", OwnerAnswer::Unavailable("no answer".to_owned())),
        ("ConfigMap", "ns1", "not-requested", OwnerAnswer::NotRequested("too long".to_owned())),
        ("ConfigMap", "ns1", "read", OwnerAnswer::Exists { waits_for_dependents: false }),
        ("ConfigMap", "ns1", "read-waits", OwnerAnswer::Exists { waits_for_dependents: true }),
    ];
    let owners = answers.map(|(kind, namespace, name, answer)| {
        let owner = reference(kind, name, true).identity(namespace);
        OwnerRead { owner, read_at: Timestamp::UNIX_EPOCH, answer }
    });
    let served = resources.iter().map(|it| it.served.clone()).collect();
    ClusterSnapshot { served, resources, owners: owners.to_vec(), ..EMPTY.clone() }
}

/// Compares the actions of a plan, and those that it predicts, with the rules.
fn check(cluster: &ClusterSnapshot, waits_for_lists: bool) -> Result<bool, String> {
    let guards = OwnerGuards::default();
    let orphan_wait = if waits_for_lists { guards.orphan_wait } else { std::time::Duration::ZERO };
    let plan = plan_under(cluster, &OwnerGuards { orphan_wait, ..guards });
    let word = |action: &ClusterAction| match action.propagation {
        Some(policy) => format!("{} {policy}", action.action),
        None => action.action.to_string(),
    };
    let actions = plan.actions.iter().chain(&plan.predicted);
    let planned: Vec<_> = actions.map(|it| (word(it), it.object.name.to_string())).collect();
    super::compare(&steps(cluster, waits_for_lists), &planned, cluster, &waits_for_lists)?;
    Ok(!planned.is_empty())
}
