//! What holds the finalizers of garbage collection (G4), and that it is reported (G6).

use super::*;

const WIDGETS: (&str, &str, &str, bool) = ("other.example.com/v1", "widgets", "Widget", true);

fn widget(name: &str, owners: &[Value]) -> Value {
    object(WIDGETS.0, WIDGETS.2, "ns1", name, owners)
}

fn with_widgets() -> Vec<(&'static str, &'static str, &'static str, bool)> {
    [&SERVED[..], &[WIDGETS]].concat()
}

/// A cluster whose owner waits for a finalizer, with a dependent that blocks.
fn family(finalizer: &str, child: impl Fn(&[Value]) -> Value) -> (Cluster, Value, Value) {
    let cluster = Cluster::new();
    cluster.serve(&with_widgets());
    let owner = deleted_with(finalizer, pod("owner", &[]));
    let child = child(&[blocking(&owner)]);
    cluster.shows_version(&child);
    cluster.server.put(&owner);
    (cluster, owner, child)
}

/// The monitor shows the owner as it is. Returns whether its finalizer is still there after all work.
async fn holds(cluster: &Cluster, owner: &Value) -> bool {
    cluster.monitor_shows(&cluster.server.get(owner).unwrap());
    cluster.works().await;
    cluster.server.get(owner).is_some()
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_unserved_kind_holds_the_finalizer() {
    for finalizer in ["orphan", "foregroundDeletion"] {
        let (cluster, owner, child) = family(finalizer, |owners| widget("child", owners));
        cluster.serve(&SERVED);
        assert!(holds(&cluster, &owner).await, "{finalizer}");
        let cause = "its dependent Widget.v1.other.example.com/child in namespace ns1: the API server does not serve \
                     Widget.v1.other.example.com";
        assert!(cluster.failures().iter().any(|failure| failure.cause == cause), "{:?}", cluster.failures());
        // After a minute its monitor stops.
        cluster.engine.apply(Event::Unserved(cluster.resource(&child)));
        assert!(holds(&cluster, &owner).await, "{finalizer}");
        cluster.serve(&with_widgets());
        cluster.relists(&child, &[&child]);
        cluster.has_listed(&child);
        cluster.works().await;
        if finalizer == "orphan" {
            assert_eq!(cluster.server.get(&child).unwrap()["metadata"]["ownerReferences"], json!([]));
        } else {
            cluster.loses(&child);
            cluster.works().await;
        }
        assert_eq!((cluster.server.get(&owner), cluster.failures()), (None, vec![]), "{finalizer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dependent_whose_group_is_unavailable_holds_the_finalizer() {
    for finalizer in ["orphan", "foregroundDeletion"] {
        let (cluster, owner, _) = family(finalizer, |owners| widget("child", owners));
        let served = SERVED.iter().map(|&(version, name, kind, scope)| resource_of(version, name, kind, scope, true));
        let unavailable = vec![(WIDGETS.0.to_owned(), "503".to_owned())];
        cluster.discovers(&Discovered { resources: served.collect(), unavailable });
        assert!(holds(&cluster, &owner).await, "{finalizer}");
        let causes = cluster.failures().into_iter().map(|failure| failure.cause).collect::<String>();
        assert!(causes.contains("discovery of other.example.com/v1: 503"), "{causes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dependent_excluded_by_filter_holds_the_finalizer() {
    let secret = |owners: &[Value]| object("v1", "Secret", "ns1", "child", owners);
    let filters: [fn() -> ResourceFilter; 2] = [
        || ResourceFilter { only: vec!["pods".parse().unwrap()], ..ResourceFilter::default() },
        || ResourceFilter { ignore: vec!["secrets".parse().unwrap()], ..ResourceFilter::default() },
    ];
    for filter in filters {
        for finalizer in ["orphan", "foregroundDeletion"] {
            let (mut cluster, owner, child) = family(finalizer, secret);
            cluster.engine.filter = filter().into();
            assert!(holds(&cluster, &owner).await, "{finalizer}");
            assert_eq!(cluster.server.get(&child).unwrap()["metadata"]["ownerReferences"], json!([blocking(&owner)]));
            let causes = cluster.failures().into_iter().map(|failure| failure.cause).collect::<String>();
            assert!(causes.contains("excluded by --only or --ignore"), "{causes}");
            cluster.loses(&child);
            cluster.monitor_shows(&cluster.server.get(&owner).unwrap());
            cluster.works().await;
            assert_eq!((cluster.server.get(&owner), cluster.failures()), (None, vec![]), "{finalizer}");
        }
    }
}

/// Neither one that a monitor shows, nor one that only a reference names.
#[tokio::test(start_paused = true)]
async fn objects_that_the_filter_leaves_out_are_not_changed() {
    let mut cluster = Cluster::new();
    cluster.engine.filter.resources.ignore = vec!["secrets".parse().unwrap()];
    let absent = pod("absent", &[]);
    let (shown, named) = (("shown", true), ("named", false));
    for (name, is_shown) in [shown, named] {
        let secret = object("v1", "Secret", "ns1", name, &[to(&absent)]);
        if is_shown {
            cluster.shows_version(&secret);
        } else {
            cluster.server.put(&secret);
        }
        cluster.shows_version(&pod(&format!("of-{name}"), &[to(&secret)]));
    }
    cluster.works().await;
    assert_eq!(cluster.server.names(), ["of-named", "of-shown", "named", "shown"]);
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_waits_for_unlisted_resources() {
    let cluster = Cluster::new();
    let owner = deleted_with("foregroundDeletion", pod("owner", &[]));
    let late = object("v1", "Secret", "ns1", "late", &[blocking(&owner)]);
    let resource = cluster.resource(&late);
    cluster.engine.state().resources.awaits_list(resource, true);
    cluster.server.put(&owner);
    assert!(holds(&cluster, &owner).await);
    assert_eq!(cluster.failures()[0].cause, "its dependents are not all known: secrets not listed yet");
    cluster.shows_version(&late);
    cluster.has_listed(&late);
    assert!(cluster.works_again().await.contains(&"DELETE secrets/late".to_owned()));
    cluster.loses(&late);
    cluster.works().await;
    assert_eq!((cluster.server.get(&owner), cluster.failures()), (None, vec![]));
}

/// A dependent that appears after a single collection would be garbage, and no collection would know that it was released.
#[tokio::test(start_paused = true)]
async fn a_single_collection_waits_without_end() {
    for (in_waves, namespaced, namespace, is_held) in
        [(true, true, "ns1", true), (false, true, "ns1", false), (true, false, "ns1", false), (true, false, "", true)]
    {
        let mut cluster = Cluster::new();
        cluster.engine.is_in_waves = in_waves;
        let secrets = cluster.engine.number("", "secrets");
        cluster.engine.state().resources.awaits_list(secrets, namespaced);
        tokio::time::advance(Duration::from_secs(30)).await;
        let owner = metadata(&object("v1", "Pod", namespace, "owner", &[])).identity(&kind(&pod("owner", &[])));
        let is_lacking = cluster.engine.lacks_lists(&owner).is_some();
        assert_eq!(is_lacking, is_held, "waves: {in_waves}, namespaced: {namespaced}, owner in {namespace:?}");
    }
}

/// Its resources are not even known: it was unavailable when the controller started.
#[tokio::test(start_paused = true)]
async fn a_never_available_group_holds_finalizers_temporarily() {
    for finalizer in ["orphan", "foregroundDeletion"] {
        let cluster = Cluster::new();
        let served = SERVED.iter().map(|&(version, name, kind, scope)| resource_of(version, name, kind, scope, true));
        let unavailable =
            ["other.example.com/v1", "custom.metrics.k8s.io/v1beta1"].map(|it| (it.to_owned(), "503".to_owned()));
        cluster.discovers(&Discovered { resources: served.collect(), unavailable: unavailable.to_vec() });
        let owner = deleted_with(finalizer, pod("owner", &[]));
        cluster.server.put(&owner);
        assert!(holds(&cluster, &owner).await, "{finalizer}");
        let cause = "its dependents are not all known: other.example.com/v1 not listed yet";
        assert_eq!(cluster.failures()[0].cause, cause);
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(!holds(&cluster, &owner).await, "{finalizer}");
    }
}

/// The labels are read before each change, and an object that gets them later is checked again.
#[tokio::test(start_paused = true)]
async fn objects_without_the_labels_are_not_changed() {
    let mut cluster = Cluster::new();
    cluster.engine.filter.labels = Some("app=web".to_owned());
    cluster.server.serves(vec![resource_of("v1", "pods", "Pod", true, true)], &[]);
    let labeled = |object: Value| with(object, "labels", json!({"app": "web"}));
    let (absent, other) = (pod("absent", &[]), pod("other", &[to(&pod("absent", &[]))]));
    cluster.shows_version(&labeled(pod("web", &[to(&absent)])));
    cluster.shows_version(&other);
    cluster.works().await;
    assert_eq!((cluster.server.names(), cluster.waiting()), (vec!["other".to_owned()], 1));
    cluster.server.put(&labeled(other));
    tokio::time::advance(Duration::from_mins(5)).await;
    cluster.works_again().await;
    assert_eq!(cluster.server.names(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_dependent_without_the_labels_keeps_its_reference() {
    let (mut cluster, owner, child) = family("orphan", |owners| pod("child", owners));
    cluster.engine.filter.labels = Some("app=web".to_owned());
    cluster.server.serves(vec![resource_of("v1", "pods", "Pod", true, true)], &[]);
    cluster.server.put(&with(owner.clone(), "labels", json!({"app": "web"})));
    assert!(holds(&cluster, &owner).await);
    assert_eq!(cluster.server.get(&child).unwrap()["metadata"]["ownerReferences"], json!([blocking(&owner)]));
    assert!(cluster.failures()[0].cause.contains("excluded by --selector"), "{:?}", cluster.failures());
}

/// As at a hand-over, where a kube-controller-manager has its Lease.
#[tokio::test(start_paused = true)]
async fn one_cause_of_many_namespaces_is_one_warning() {
    let cluster = Cluster::new();
    for number in 0..41 {
        let namespace = object("v1", "Namespace", "", &format!("ns{number}"), &[]);
        cluster.engine.failed(metadata(&namespace).identity(&kind(&namespace)), "another one deletes them".to_owned());
    }
    assert_eq!((cluster.notices().len(), cluster.failures().len()), (1, 41));
    let (one, other) = (pod("one", &[]), pod("other", &[]));
    for pod in [&one, &other, &one] {
        cluster.engine.failed(metadata(pod).identity(&kind(pod)), "503".to_owned());
    }
    assert_eq!(cluster.notices(), ["failed one: 503", "failed other: 503"]);
}
