//! Rules for objects: what they select, what follows, what they never delete.

use tokio_util::sync::CancellationToken;

use super::*;
use crate::controller::{
    ClusterObserver, ClusterReport, CollectOptions, ControllerSettings, ObjectFilter, ObjectRules, ObserverLimits,
    OwnersService, ResourceFilter, SaveOptions, collect,
};
use crate::owners::plan;
use crate::rules::{Rule, RuleSubject, RuleText, Then};

const CLOCK: crate::kubernetes::Clock = || "2026-01-02T00:00:00Z".parse().unwrap();
const OLD: &str = "object.age > duration('1h')";

fn rule(name: &str, resource: &str, when: &str, then: Then) -> Rule {
    let (name, resource, when, note) = (name.to_owned(), resource.to_owned(), when.to_owned(), String::new());
    Rule::compile(RuleText { name, subject: RuleSubject::Object, resource, when, then, until: None, note }).unwrap()
}

fn rules(rules: impl IntoIterator<Item = Rule>) -> ObjectRules {
    ObjectRules { rules: rules.into_iter().collect(), annotated: Vec::new() }
}

fn old() -> ObjectRules {
    rules([rule("old", "configmaps", OLD, Then::Delete)])
}

/// An object that is a day old.
fn map(namespace: &str, name: &str) -> Value {
    with(object("v1", "ConfigMap", namespace, name, &[]), "creationTimestamp", json!("2026-01-01T00:00:00Z"))
}

fn server(objects: impl IntoIterator<Item = Value>) -> FakeApi {
    let served = [("configmaps", "ConfigMap", true), ("secrets", "Secret", true), ("namespaces", "Namespace", false)];
    let served = served.map(|(resource, kind, namespaced)| resource_of("v1", resource, kind, namespaced, true));
    let server = FakeApi::serving(served.to_vec());
    objects.into_iter().for_each(|object| server.put(&object));
    server
}

fn settings(rules: ObjectRules) -> ControllerSettings {
    ControllerSettings { rules, ..ControllerSettings::default() }
}

async fn collects(server: &FakeApi, rules: ObjectRules, options: &CollectOptions) -> ClusterReport {
    let connection = Arc::new(server.connection());
    collect(connection, settings(rules), options, CLOCK, CancellationToken::new(), |_| {}).await.unwrap()
}

fn done(report: &ClusterReport) -> Vec<String> {
    report.outcomes.iter().map(|it| format!("{} {} {}: {}", it.action, it.object.name, it.result, it.reason)).collect()
}

fn left(server: &FakeApi) -> Vec<String> {
    let mut names = server.names();
    names.sort();
    names
}

/// Plans, and lists what would be done.
async fn planned(server: &FakeApi, rules: ObjectRules) -> (Vec<String>, Vec<String>) {
    let (connection, guards) = (Arc::new(server.connection()), OwnerGuards::default());
    let mut observer = ClusterObserver::new(connection, ObserverLimits::default(), CLOCK, &guards);
    observer.rules = rules;
    let plan = plan(&observer.snapshot(|_, _| {}).await.unwrap());
    let actions = plan.actions.iter().chain(&plan.predicted);
    (actions.map(|it| format!("{} {}: {}", it.action, it.object.name, it.reason)).collect(), plan.errors)
}

/// What a rule deletes, its dependents follow, as the plan has shown. Nothing else is deleted.
#[tokio::test(start_paused = true)]
async fn a_rule_deletes_what_it_selects_and_the_dependents_follow() {
    let young = with(map("ns1", "young"), "creationTimestamp", json!("2026-01-01T23:30:00Z"));
    let labeled = with(map("ns1", "labeled"), "labels", json!({"keep": "true"}));
    let undated = object("v1", "ConfigMap", "ns1", "undated", &[]);
    let dependent = object("v1", "Secret", "ns1", "dependent", &[to(&map("ns1", "stale"))]);
    let objects = [map("ns1", "stale"), young, labeled, undated, dependent, map("kube-system", "of-kubernetes")];
    let server = server(objects);
    let keep = rule("keep", "configmaps", "'keep' in object.labels", Then::Keep);
    let rules = || rules([keep.clone(), rule("old", "configmaps", OLD, Then::Delete)]);
    let (actions, errors) = planned(&server, rules()).await;
    assert_eq!(
        (actions, errors),
        (vec!["delete stale: rule old".into(), "delete dependent: owners_absent".into()], vec![])
    );
    let report = collects(&server, rules(), &CollectOptions::default()).await;
    assert_eq!(done(&report), ["delete stale removed: rule old", "delete dependent removed: owners_absent"]);
    assert_eq!(left(&server), ["labeled", "of-kubernetes", "undated", "young"]);
}

/// `keep` keeps what it cannot be evaluated for, and `delete` does not delete it.
#[tokio::test(start_paused = true)]
async fn an_error_of_an_evaluation_deletes_nothing() {
    let reads = "object.labels['team'] == 'a'";
    for (then, expected) in [(Then::Keep, vec!["a", "b"]), (Then::Delete, vec!["b"])] {
        let server = server([with(map("ns1", "a"), "labels", json!({"team": "a"})), map("ns1", "b")]);
        let last = rule("last", "secrets", "true", Then::Delete);
        collects(&server, rules([rule("reads", "configmaps", reads, then), last]), &CollectOptions::default()).await;
        assert_eq!(left(&server), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_sees_the_owner_that_controls_an_object() {
    let mut owner = to(&map("ns1", "owner"));
    owner["controller"] = json!(true);
    let owned = with(map("ns1", "owned"), "ownerReferences", json!([owner]));
    let server = server([map("ns1", "owner"), owned]);
    let when = "has(object.owner_kind) && object.owner_kind + '/' + object.owner_name == 'ConfigMap/owner' \
                && object.created < now && object.namespace + object.name == 'ns1owned' && object.annotations == {}";
    collects(&server, rules([rule("r", "configmaps", when, Then::Delete)]), &CollectOptions::default()).await;
    assert_eq!(left(&server), ["owner"]);
}

/// The namespaces of Kubernetes stay, and so does what has changed since the list, such as one whose owner has just kept it.
#[tokio::test(start_paused = true)]
async fn what_changes_meanwhile_and_what_is_of_kubernetes_stays() {
    let namespace =
        |name: &str| with(object("v1", "Namespace", "", name, &[]), "creationTimestamp", json!("2026-01-01T00:00:00Z"));
    let server = server([namespace("preview-7"), namespace("kube-public"), map("ns1", "changed")]);
    let changed = with(map("ns1", "changed"), "labels", json!({"keep": "true"}));
    server.before("DELETE", &changed.clone(), move |server| server.put(&changed));
    server.put(&namespace("default"));
    let of_namespaces = rule("previews", "namespaces", OLD, Then::Delete);
    let report = collects(
        &server,
        rules([of_namespaces, rule("old", "configmaps", OLD, Then::Delete)]),
        &CollectOptions::default(),
    )
    .await;
    assert_eq!(done(&report), ["delete preview-7 removed: rule previews"]);
    assert_eq!(left(&server), ["changed", "default", "kube-public"]);
}

#[tokio::test(start_paused = true)]
async fn annotations_of_kube_janitor_end_objects_of_named_resources() {
    let rows = [
        ("janitor/ttl", "23h", true),
        ("janitor/ttl", "1d", true),
        ("janitor/ttl", "2d", false),
        ("janitor/ttl", "4w", false),
        ("janitor/ttl", "forever", false),
        ("janitor/ttl", "1min", false),
        ("janitor/ttl", "1h30m", false),
        ("janitor/ttl", "1", false),
        ("janitor/ttl", "-1h", false),
        ("janitor/ttl", "", false),
        ("janitor/ttl", "00000000000000000000000000000000000001s", false),
        ("janitor/expires", "2026-01-01T23:59:59Z", true),
        ("janitor/expires", "2026-01-01T23:59", true),
        ("janitor/expires", "2026-01-02", true),
        ("janitor/expires", "2026-01-02T00:00:01Z", false),
        ("janitor/expires", "2026-01-03", false),
        ("janitor/expires", "soon", false),
    ];
    for (name, value, ends) in rows {
        let annotated = with(map("ns1", "a"), "annotations", json!({ name: value }));
        let server = server([annotated.clone(), map("ns1", "b"), object("v1", "Secret", "ns1", "s", &[])]);
        server.put(&with(
            object("v1", "Secret", "ns1", "s", &[]),
            "annotations",
            annotated["metadata"]["annotations"].clone(),
        ));
        let rules = ObjectRules { annotated: vec!["configmaps".parse().unwrap()], ..ObjectRules::default() };
        collects(&server, rules, &CollectOptions::default()).await;
        let left = if ends { vec!["b", "s"] } else { vec!["a", "b", "s"] };
        assert_eq!(self::left(&server), left, "{name}: {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_a_collection_hold_for_rules() {
    let objects = || ["a", "b", "c"].map(|name| map("ns1", name)).into_iter().chain([map("ns2", "d")]);
    let (max, dry) = (
        CollectOptions { max_objects: Some(1), ..CollectOptions::default() },
        CollectOptions { dry_run: true, ..CollectOptions::default() },
    );
    let only = ObjectFilter { uids: Some([Uid::new("d-uid")].into()), ..ObjectFilter::default() };
    let only = CollectOptions { only, ..CollectOptions::default() };
    for (options, left) in [(&max, 3), (&dry, 4), (&only, 3)] {
        let server = server(objects());
        let report = collects(&server, old(), options).await;
        assert_eq!(self::left(&server).len(), left, "{:?}", done(&report));
        assert_eq!(report.outcomes.len(), if options.dry_run { 4 } else { 1 });
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_listed_is_an_error_and_deletes_nothing() {
    let server = server([map("ns1", "a")]);
    server.fails_lists(&resource_of("v1", "configmaps", "ConfigMap", true, true), &[]);
    let report = collects(&server, old(), &CollectOptions::default()).await;
    assert_eq!((left(&server), report.errors.len()), (vec!["a".to_owned()], 2), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_not_served_is_an_error() {
    let server = server([map("ns1", "a")]);
    let wrong = || rules([rule("wrong", "configmap", OLD, Then::Delete)]);
    let text = "rules: the API server serves no configmap that can be deleted";
    assert_eq!(planned(&server, wrong()).await, (Vec::new(), vec![text.to_owned()]));
    assert_eq!(collects(&server, wrong(), &CollectOptions::default()).await.errors, [text]);
}

/// What the timeout leaves is no failure, and what was deleted by then is in the report.
#[tokio::test(start_paused = true)]
async fn a_timeout_ends_the_deletions_in_order() {
    let server = server((0..500).map(|number| map("ns1", &format!("map{number}"))));
    let calls = CallLimits { per_second: 10, ..CallLimits::default() };
    let settings = ControllerSettings { calls, ..settings(old()) };
    let options = CollectOptions { timeout: Duration::from_secs(20), ..CollectOptions::default() };
    let connection = Arc::new(server.connection());
    let report = collect(connection, settings, &options, CLOCK, CancellationToken::new(), |_| {}).await.unwrap();
    assert_eq!((report.interrupted, report.failures), (true, Vec::new()));
    assert_eq!(report.outcomes.len() + left(&server).len(), 500);
    assert!((100..300).contains(&report.outcomes.len()), "{}", report.outcomes.len());
}

/// `run` follows rules, but not where one selects most objects at once. A collection carries it out.
#[tokio::test(start_paused = true)]
async fn a_service_pauses_a_rule_where_it_selects_most_objects() {
    let maps = |namespace: &str, count: usize| {
        (0..count).map(|number| map(namespace, &format!("{namespace}-{number}"))).collect::<Vec<_>>()
    };
    let spread =
        |namespaces: usize, count| (0..namespaces).flat_map(move |it| maps(&format!("ns{it}"), count)).collect();
    let tenant = [maps("tenant", 150), maps("ns1", 90)].concat();
    let steered = [maps("tenant", 99), maps("ns1", 60)].concat();
    let cluster = |old: usize, young: usize| {
        let named = |name: String| with(object("v1", "Namespace", "", &name, &[]), "creationTimestamp", json!(null));
        let is_old = |it| with(it, "creationTimestamp", json!("2026-01-01T00:00:00Z"));
        let old = (0..old).map(|number| is_old(named(format!("old-{number}"))));
        old.chain((0..young).map(|number| named(format!("young-{number}")))).collect()
    };
    let in_one = "paused: old selects 600 of 600 configmaps in namespace ns1";
    let rows: [(Vec<Value>, usize, &str); 9] = [
        (maps("ns1", 1), 0, "followed"),
        (maps("ns1", 600), 600, in_one),
        (tenant, 150, "paused: old selects 150 of 150 configmaps in namespace tenant"),
        (steered, 0, "followed"),
        (spread(10, 50), 500, "paused: old selects 500 of 500 configmaps;"),
        (cluster(1, 3), 3, "followed"),
        (cluster(2, 3), 5, "paused: old selects 2 of 5 namespaces"),
        (cluster(10, 30), 30, "followed"),
        (cluster(11, 60), 71, "paused: old selects 11 of 71 namespaces"),
    ];
    for (objects, left, note) in rows {
        let server = server(objects);
        let rules =
            || rules([rule("old", "configmaps", OLD, Then::Delete), rule("old", "namespaces", OLD, Then::Delete)]);
        let (connection, resources) = (Arc::new(server.connection()), ResourceFilter::default());
        let service = OwnersService::new(&connection, settings(rules()), resources, false, CLOCK);
        let (health, stop) = (service.pages().health, CancellationToken::new());
        let test = async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(self::left(&server).len(), left, "{note}");
            assert!(health.notes().iter().any(|line| line.contains(note)), "{:?}", health.notes());
            stop.cancel();
        };
        tokio::join!(service.run(stop.clone()), test);
        collects(&server, rules(), &CollectOptions::default()).await;
        assert_eq!(self::left(&server).iter().filter(|name| !name.starts_with("young")).count(), 0);
    }
}

/// The API server deletes the content of a namespace with it, and kubegc cannot save that.
#[tokio::test(start_paused = true)]
async fn a_namespace_is_not_deleted_where_objects_are_saved() {
    let namespace = with(object("v1", "Namespace", "", "ns1", &[]), "creationTimestamp", json!("2026-01-01T00:00:00Z"));
    let server = server([namespace, map("ns1", "a"), map("ns2", "b")]);
    let rules = rules([
        rule("previews", "namespaces", OLD, Then::Delete),
        rule("b", "configmaps", "object.name == 'b'", Then::Delete),
    ]);
    let save = Some(SaveOptions { keep: Arc::new(|_| Ok(())), secrets: false });
    let report = collects(&server, rules, &CollectOptions { save, ..CollectOptions::default() }).await;
    assert_eq!(left(&server), ["a", "ns1"]);
    assert!(report.failures[0].cause.contains("its content would be deleted with it"), "{report:?}");
}
