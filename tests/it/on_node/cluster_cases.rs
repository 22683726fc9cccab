//! The integration and end-to-end cases of the garbage collector controller of Kubernetes, with `controller run` on a real
//! API server. The names of upstream's tests stand in the comments.

mod cluster;

use std::time::Duration;

use ::kubegc::controller::{CollectOptions, ControllerSettings, collect};
use ::kubegc::owners::OwnerGuards;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, PropagationPolicy};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::cluster::{Cluster, absent_owner, now, with};
use super::owner_forests::forest::custom_resources;
use crate::rig::{NodeRig, becomes_true, scenarios};

const HOLD: &str = "example.com/hold";

/// As in the tests of Kubernetes, discovery is repeated often.
fn settings() -> ControllerSettings {
    ControllerSettings {
        discovery: Duration::from_secs(2),
        first_lists: Duration::from_secs(5),
        ..ControllerSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_and_dependents_end_as_in_kubernetes() {
    let node = NodeRig::start_api_alone().await;
    node.play(&scenarios![
        owners_and_dependents_of_built_in_kinds_go_and_stay_as_in_kubernetes,
        custom_resources_are_collected_and_their_definitions_may_come_and_go,
        references_that_are_wrong_keep_or_delete_and_are_reported,
        the_brake_pauses_run_and_collect_continues,
        a_resource_that_cannot_be_listed_delays_no_other
    ])
    .await;
}

async fn owners_and_dependents_of_built_in_kinds_go_and_stay_as_in_kubernetes(node: &NodeRig) {
    let cluster = Cluster { node };
    for namespace in ["cascade", "missing", "orphans", "two", "free", "held", "twice", "circle", "chain"] {
        cluster.namespace(namespace).await;
    }
    let play = async {
        tokio::join!(
            a_deletion_in_the_background_takes_dependents_without_another_owner(&cluster),
            an_owner_that_never_was_takes_its_dependents(&cluster),
            orphans_stay_without_the_reference(&cluster),
            an_owner_that_exists_frees_a_waiting_one(&cluster),
            a_reference_that_does_not_block_frees_the_owner(&cluster),
            a_held_dependent_that_blocks_holds_its_owner(&cluster),
            a_second_foreground_deletion_ends_too(&cluster),
            a_circle_of_blocking_owners_goes(&cluster),
            a_long_chain_goes_in_the_foreground(&cluster),
        );
    };
    Box::pin(cluster.beside_run(settings(), play)).await;
}

/// `TestCascadingDeletion`.
async fn a_deletion_in_the_background_takes_dependents_without_another_owner(cluster: &Cluster<'_>) {
    let rc1 = cluster.create("ReplicationController", "cascade", "rc1", &[]).await;
    let rc2 = cluster.create("ReplicationController", "cascade", "rc2", &[]).await;
    let only = cluster.create("Pod", "cascade", "only", &[rc1.reference()]).await;
    let free = cluster.create("Pod", "cascade", "free", &[]).await;
    let both = cluster.create("Pod", "cascade", "both", &[rc1.reference(), rc2.reference()]).await;
    cluster.delete(&rc1, PropagationPolicy::Background).await;
    cluster.await_removal(&only).await;
    cluster.stay(&[&free, &both, &rc2]).await;
    assert_eq!(cluster.owners(&both).await, ["rc2"]);
}

/// `TestCreateWithNonExistentOwner`.
async fn an_owner_that_never_was_takes_its_dependents(cluster: &Cluster<'_>) {
    let pod = cluster.create("Pod", "missing", "pod", &[absent_owner()]).await;
    cluster.await_removal(&pod).await;
}

/// `TestOrphaning`.
async fn orphans_stay_without_the_reference(cluster: &Cluster<'_>) {
    let rc = cluster.create("ReplicationController", "orphans", "rc", &[]).await;
    let mut pods = Vec::new();
    for name in ["a", "b", "c"] {
        pods.push(cluster.create("Pod", "orphans", name, &[rc.blocking()]).await);
    }
    cluster.delete(&rc, PropagationPolicy::Orphan).await;
    cluster.await_removal(&rc).await;
    cluster.stay(&pods.iter().collect::<Vec<_>>()).await;
    for pod in &pods {
        assert_eq!(cluster.owners(pod).await, [""; 0]);
    }
}

/// `TestSolidOwnerDoesNotBlockWaitingOwner`.
async fn an_owner_that_exists_frees_a_waiting_one(cluster: &Cluster<'_>) {
    let rc1 = cluster.create("ReplicationController", "two", "rc1", &[]).await;
    let rc2 = cluster.create("ReplicationController", "two", "rc2", &[]).await;
    let pod = cluster.create("Pod", "two", "pod", &[rc1.blocking(), rc2.reference()]).await;
    cluster.delete(&rc1, PropagationPolicy::Foreground).await;
    cluster.await_removal(&rc1).await;
    assert_eq!(cluster.owners(&pod).await, ["rc2"]);
}

/// `TestNonBlockingOwnerRefDoesNotBlock`.
async fn a_reference_that_does_not_block_frees_the_owner(cluster: &Cluster<'_>) {
    let rc = cluster.create("ReplicationController", "free", "rc", &[]).await;
    let held = json!({ "finalizers": [HOLD] });
    let unset = cluster.create_with("Pod", "free", "unset", &[rc.reference()], held.clone()).await;
    let not = with(rc.reference(), "blockOwnerDeletion", json!(false));
    let not = cluster.create_with("Pod", "free", "not", &[not], held).await;
    cluster.delete(&rc, PropagationPolicy::Foreground).await;
    cluster.await_removal(&rc).await;
    for pod in [&unset, &not] {
        let found = cluster.find(pod).await.unwrap();
        assert!(found.metadata.deletion_timestamp.is_some(), "{found:#?}");
    }
}

/// `TestBlockingOwnerRefDoesBlock`.
async fn a_held_dependent_that_blocks_holds_its_owner(cluster: &Cluster<'_>) {
    let rc = cluster.create("ReplicationController", "held", "rc", &[]).await;
    let held = json!({ "finalizers": [HOLD] });
    let pod = cluster.create_with("Pod", "held", "pod", &[rc.blocking()], held).await;
    cluster.delete(&rc, PropagationPolicy::Foreground).await;
    let begun = async || cluster.find(&pod).await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
    assert!(becomes_true(begun).await);
    cluster.stay(&[&rc, &pod]).await;
    cluster.set_finalizers(&pod, &[]).await;
    cluster.await_removal(&rc).await;
}

/// `TestDoubleDeletionWithFinalizer`.
async fn a_second_foreground_deletion_ends_too(cluster: &Cluster<'_>) {
    let pod = cluster.create_with("Pod", "twice", "pod", &[], json!({ "finalizers": [HOLD] })).await;
    for _ in 0..2 {
        cluster.delete(&pod, PropagationPolicy::Foreground).await;
        cluster.await_finalizers(&pod, &[HOLD]).await;
    }
    cluster.set_finalizers(&pod, &[]).await;
    cluster.await_removal(&pod).await;
}

/// The end-to-end test "should not be blocked by dependency circle".
async fn a_circle_of_blocking_owners_goes(cluster: &Cluster<'_>) {
    let one = cluster.create("Pod", "circle", "one", &[]).await;
    let two = cluster.create("Pod", "circle", "two", &[one.blocking()]).await;
    let three = cluster.create("Pod", "circle", "three", &[two.blocking()]).await;
    let close = json!({ "metadata": { "ownerReferences": [three.blocking()] } });
    let pods = cluster.api("Pod", "circle");
    pods.patch("one", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(&close)).await.unwrap();
    cluster.delete(&one, PropagationPolicy::Foreground).await;
    for pod in [&one, &two, &three] {
        cluster.await_removal(pod).await;
    }
}

async fn a_long_chain_goes_in_the_foreground(cluster: &Cluster<'_>) {
    let first = cluster.create("ConfigMap", "chain", "c0", &[]).await;
    let mut last = first.clone();
    for at in 1..10 {
        last = cluster.create("Secret", "chain", &format!("c{at}"), &[last.blocking()]).await;
    }
    cluster.delete(&first, PropagationPolicy::Foreground).await;
    cluster.await_removal(&first).await;
    assert!(cluster.find(&last).await.is_none(), "the owner goes last");
}

async fn custom_resources_are_collected_and_their_definitions_may_come_and_go(node: &NodeRig) {
    let cluster = Cluster { node };
    cluster.namespace("custom").await;
    let [mut widgets, gadgets] = custom_resources();
    // With one version. With several, a reference to another one than the preferred is checked in a version that is not
    // served any more, so its object stays, as in Kubernetes (kubernetes#102641).
    widgets["spec"]["versions"].as_array_mut().unwrap().truncate(1);
    cluster.define(&gadgets).await;
    let play = async {
        // `TestCRDDeletionCascading`: with the same definition again, the second time.
        for _ in 0..2 {
            cluster.define(&widgets).await;
            owners_and_dependents_of_any_kind_mix(&cluster).await;
            a_deleted_definition_takes_the_dependents_of_its_objects(&cluster).await;
        }
        cluster_scoped_custom_resources(&cluster).await;
    };
    cluster.beside_run(settings(), play).await;
}

/// `TestCustomResourceCascadingDeletion`, `TestMixedRelationships`.
async fn owners_and_dependents_of_any_kind_mix(cluster: &Cluster<'_>) {
    for (owner, dependent) in [("Widget", "Widget"), ("Widget", "ConfigMap"), ("ConfigMap", "Widget")] {
        let owner = cluster.create(owner, "custom", "owner", &[]).await;
        let dependent = cluster.create(dependent, "custom", "dependent", &[owner.reference()]).await;
        cluster.delete(&owner, PropagationPolicy::Foreground).await;
        cluster.await_removal(&owner).await;
        cluster.await_removal(&dependent).await;
    }
}

async fn a_deleted_definition_takes_the_dependents_of_its_objects(cluster: &Cluster<'_>) {
    let owner = cluster.create("Widget", "custom", "owner", &[]).await;
    let dependent = cluster.create("ConfigMap", "custom", "dependent", &[owner.reference()]).await;
    let definitions = cluster.api("CustomResourceDefinition", "");
    definitions.delete("widgets.example.com", &kube::api::DeleteParams::default()).await.unwrap();
    cluster.await_removal(&dependent).await;
    let gone = async || definitions.get_opt("widgets.example.com").await.unwrap().is_none();
    assert!(becomes_true(gone).await);
}

/// The end-to-end tests of cascading and orphan deletion of custom resources.
async fn cluster_scoped_custom_resources(cluster: &Cluster<'_>) {
    for (policy, stays) in [(PropagationPolicy::Background, false), (PropagationPolicy::Orphan, true)] {
        let owner = cluster.create("Gadget", "", "owner", &[]).await;
        let dependent = cluster.create("Gadget", "", "dependent", &[owner.reference()]).await;
        // Only a monitor that runs knows the dependent, and only then the orphan is released.
        let canary = cluster.create("Gadget", "", "canary", &[with(owner.reference(), "uid", json!("canary"))]).await;
        cluster.await_removal(&canary).await;
        cluster.delete(&owner, policy).await;
        cluster.await_removal(&owner).await;
        if stays {
            cluster.stay(&[&dependent]).await;
            assert_eq!(cluster.owners(&dependent).await, [""; 0]);
        } else {
            cluster.await_removal(&dependent).await;
        }
    }
}

/// `TestCrossNamespaceReferences`, `TestClusterScopedOwners`, the cases of the guards.
async fn references_that_are_wrong_keep_or_delete_and_are_reported(node: &NodeRig) {
    let cluster = Cluster { node };
    for namespace in ["a", "b"] {
        cluster.namespace(namespace).await;
    }
    let parent = cluster.create("ConfigMap", "b", "parent", &[]).await;
    let volume = cluster.create("PersistentVolume", "", "volume", &[]).await;
    let unknown = json!({ "apiVersion": "test/v1", "kind": "Unknown", "name": "x", "uid": "x" });
    let valid = cluster.create("Secret", "b", "valid", &[parent.reference()]).await;
    let of_volume = cluster.create("ConfigMap", "a", "of-volume", &[volume.reference()]).await;
    let no_volume = with(volume.reference(), "name", json!("no-volume"));
    let no_volume = cluster.create("ConfigMap", "a", "no-volume", &[with(no_volume, "uid", json!("no"))]).await;
    let of_unknown = cluster.create("ConfigMap", "a", "of-unknown", &[unknown.clone(), absent_owner()]).await;
    let in_list = with(parent.reference(), "kind", json!("ConfigMapList"));
    let in_list = cluster.create("ConfigMap", "b", "in-list", &[in_list]).await;
    let crossing = cluster.create("Secret", "a", "crossing", &[parent.reference()]).await;
    let role = cluster.create("ClusterRole", "", "of-namespaced", &[parent.reference()]).await;
    let play = async {
        cluster.await_removal(&crossing).await;
        cluster.await_removal(&no_volume).await;
        let other_kind = with(parent.reference(), "kind", json!("Pod"));
        let late = cluster.create("Secret", "a", "late", &[other_kind]).await;
        cluster.await_removal(&late).await;
        cluster.stay(&[&parent, &valid, &of_volume, &of_unknown, &in_list, &role]).await;
        let events: Api<Event> = Api::all(node.kube());
        let reported = async || {
            let events = events.list(&ListParams::default()).await.unwrap().items;
            let about = |name: &str, reason: &str| {
                let is = |event: &&Event| event.involved_object.name.as_deref() == Some(name);
                events.iter().filter(is).any(|event| event.reason.as_deref() == Some(reason))
            };
            about("crossing", "OwnerRefInvalidNamespace")
                && about("of-namespaced", "OwnerRefInvalidNamespace")
                && about("of-unknown", "OwnerRefUnresolvable")
        };
        assert!(becomes_true(reported).await, "{:#?}", events.list(&ListParams::default()).await);
    };
    cluster.beside_run(settings(), play).await;
}

/// `TestCascadingDeleteOnCRDConversionFailure`: a resource that can never be listed delays no other.
async fn a_resource_that_cannot_be_listed_delays_no_other(node: &NodeRig) {
    let cluster = Cluster { node };
    cluster.namespace("broken").await;
    let [widgets, _] = custom_resources();
    cluster.define(&widgets).await;
    cluster.create("Widget", "broken", "stored-in-v1", &[]).await;
    let service = json!({ "namespace": "broken", "name": "nobody", "path": "/convert" });
    let webhook = json!({ "clientConfig": { "service": service }, "conversionReviewVersions": ["v1"] });
    let mut versions = widgets["spec"]["versions"].clone();
    (versions[0]["storage"], versions[1]["storage"]) = (json!(false), json!(true));
    let patch =
        json!({ "spec": { "conversion": { "strategy": "Webhook", "webhook": webhook }, "versions": versions } });
    let definitions = cluster.api("CustomResourceDefinition", "");
    let (params, patch) = (kube::api::PatchParams::default(), kube::api::Patch::Merge(&patch));
    definitions.patch("widgets.example.com", &params, &patch).await.unwrap();
    let fails = async || {
        let widgets =
            kube::api::ApiResource::from_gvk(&kube::api::GroupVersionKind::gvk("example.com", "v2", "Widget"));
        let api: Api<kube::api::DynamicObject> = Api::all_with(node.kube(), &widgets);
        // A server of version 1.36 answers 429 to a list of its cache, which the client sends again for five minutes.
        api.list(&ListParams::default().match_any().limit(1)).await.is_err()
    };
    assert!(becomes_true(fails).await, "the conversion works");
    let rc = cluster.create("ReplicationController", "broken", "rc", &[]).await;
    let pod = cluster.create("Pod", "broken", "pod", &[rc.reference()]).await;
    let play = async {
        cluster.delete(&rc, PropagationPolicy::Background).await;
        cluster.await_removal(&pod).await;
    };
    cluster.beside_run(ControllerSettings { first_lists: Duration::from_secs(2), ..settings() }, play).await;
}

/// Many objects whose owners were never seen alive, as after a restore: `run` pauses, `collect` deletes them.
async fn the_brake_pauses_run_and_collect_continues(node: &NodeRig) {
    let cluster = Cluster { node };
    cluster.namespace("restored").await;
    for at in 0..30 {
        cluster.create("ConfigMap", "restored", &format!("c{at}"), &[absent_owner()]).await;
    }
    let owner = cluster.create("Secret", "restored", "owner", &[]).await;
    let maps = cluster.api("ConfigMap", "restored");
    let count = async || maps.list(&ListParams::default()).await.unwrap().items.len();
    let guards = OwnerGuards { brake_count: 10, ..OwnerGuards::default() };
    let settings = ControllerSettings { guards, ..settings() };
    let play = async {
        assert!(becomes_true(async || count().await == 20).await, "{}", count().await);
        // What is deleted because its owner was deleted goes on.
        let dependent = cluster.create("Secret", "restored", "dependent", &[owner.reference()]).await;
        let canary =
            cluster.create("Secret", "restored", "canary", &[with(absent_owner(), "name", json!("canary"))]).await;
        cluster.await_removal(&canary).await;
        cluster.delete(&owner, PropagationPolicy::Background).await;
        cluster.await_removal(&dependent).await;
        assert_eq!(count().await, 20);
    };
    cluster.beside_run(settings.clone(), play).await;
    let options = CollectOptions { max_objects: Some(5), ..CollectOptions::default() };
    let collect = async |options: &CollectOptions| {
        collect(cluster.connection(), settings.clone(), options, now, CancellationToken::new(), |_| {}).await.unwrap()
    };
    collect(&CollectOptions { dry_run: true, max_objects: None, ..options.clone() }).await;
    assert_eq!(count().await, 20, "a dry run");
    collect(&options).await;
    assert_eq!(count().await, 15);
    let report = collect(&CollectOptions { max_objects: None, ..options }).await;
    assert_eq!((count().await, report.errors.len(), report.failures.len()), (0, 0, 0));
}
