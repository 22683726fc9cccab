//! How soon a dependent is deleted after its owner, by kubegc and by kube-controller-manager, each on an API server of its own.

use std::time::Instant;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};

use crate::contest::{Collector, await_collector, create, start};
use crate::figures::median;
use crate::rig::{NodeRig, kubernetes_version};

/// Cascades of each collector, one after the other.
const CASCADES: usize = 200;

pub async fn measure() {
    let (ours, upstream) = (p50(Collector::Ours).await, p50(Collector::Upstream).await);
    println!("one cascade, p50 of {CASCADES}, real API server {}", kubernetes_version());
    println!(
        "kubegc: {ours:.1} ms; kube-controller-manager: {upstream:.1} ms; ratio {:.2} (aim: at most 1)",
        ours / upstream
    );
}

/// Returns the milliseconds from the end of an owner to that of its dependent.
async fn p50(collector: Collector) -> f64 {
    let node = NodeRig::start_api_alone().await;
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    let _collector = start(&node, collector);
    await_collector(&maps).await;
    let mut times = Vec::new();
    for number in 0..CASCADES {
        let owner = create(&maps, vec![(format!("owner-{number}"), None)]).await.remove(0);
        let (dependent, _) = create(&maps, vec![(format!("dependent-{number}"), Some(owner.clone()))]).await.remove(0);
        maps.delete(&owner.0, &DeleteParams::background()).await.unwrap();
        let begun = Instant::now();
        while maps.get_metadata_opt(&dependent).await.unwrap().is_some() {}
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    median(times)
}
