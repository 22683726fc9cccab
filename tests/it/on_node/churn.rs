//! Pods that are created and deleted at random, on a node with the kubelet alone and on a node with kubelet and agent.
//!
//! In `make test` there are 15 pods for 20 seconds, in `make test-churn` 100 pods for five minutes, and again with everything on.

mod everything;
mod failures;
mod script;

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, PostParams};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::on_node::service::Service;
use crate::on_node::since_1_36::pulls::STRANGER;
use crate::rig::{Collection, Image, Layer, Manifest, NodeRig, Options};
use failures::{Failures, Found};
use script::{Ending, Life, Part};

/// Another seed gives another sequence.
const SEED: u64 = 11;
/// How long it takes, unless the variable `KUBEGC_CHURN_SECONDS` is set.
const LASTS: Duration = Duration::from_secs(20);
const FEWEST_PODS: usize = 15;

/// The lowest limits, and all unused images are removed. Young sandboxes may be in creation, so that guard remains.
const HARD: [&str; 4] = [
    "containers.max_per_pod_container=0",
    "containers.max_containers=0",
    "images.all_unused=true",
    "guards.sandbox_grace=20s",
];

/// The event of the kubelet if a container is removed between its list of containers and its status call for that
/// container. The remover can also be the kubelet's own garbage collection. The next sync succeeds. Later kubelets
/// ignore the case and emit no event.
const OVERTAKEN: &str = "event FailedSync: error determining status: rpc error: code = NotFound";

/// The event of the kubelet if a container or a sandbox ends by itself while containerd sends it the kill: containerd has closed
/// its connection to the shim already. kubegc kills nothing, so the two are the kubelet's and the runtime's own.
const SHIM_ENDED: &str = "ttrpc: closed";

/// How many unused images are imported meanwhile.
const IMPORTS: u32 = 15;

/// The longest wait until the name of a pod is free again.
const RENAMES: Duration = Duration::from_mins(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_under_churn_fail_as_without_the_agent() {
    let lasts = std::env::var("KUBEGC_CHURN_SECONDS").map_or(LASTS, |text| Duration::from_secs(text.parse().unwrap()));
    let (alone, beside) = tokio::join!(start(), start());
    beside.grant_shipped_permissions("kubegc").await;
    let has_everything = std::env::var_os("KUBEGC_EVERYTHING").is_some();
    let more = if has_everything { everything::prepare(&beside).await } else { Vec::new() };
    let settings: Vec<_> = HARD.into_iter().chain(more.iter().map(String::as_str)).collect();
    let service = Service::start(&beside, "kubegc", &settings);
    let disturbed = async {
        if has_everything {
            tokio::join!(everything::disturb(&beside, lasts), everything::strangers(&beside, &service, lasts));
        }
    };
    let (alone_found, found, ()) =
        tokio::join!(play(&alone, lasts, has_everything), play(&beside, lasts, has_everything), disturbed);
    drop(alone);

    let left = async || beside.without_pod().await;
    service.until("end of all leftovers", async || left().await.is_empty()).await;
    println!("without the agent: {alone_found:#?}\nbeside it: {found:#?}");
    println!("the agent: {:#?}", service.deeds());
    let mut new = found;
    let is_of_others =
        |kind: &str, text: &str| kind.starts_with(OVERTAKEN) || text.contains(SHIM_ENDED) || text.starts_with(STRANGER);
    new.retain(|kind, text| !alone_found.contains_key(kind) && !is_of_others(kind, text));
    assert_eq!(new, Found::new());
}

/// Starts a node whose kubelet collects garbage too and emits all events. One pod runs all the time, so that its image
/// is kept.
async fn start() -> NodeRig {
    let kubelet_flags = vec!["--event-qps=0".to_owned()];
    let node = NodeRig::start(Options { kubelet: Collection::On, kubelet_flags, ..Options::default() }).await;
    node.create(&Manifest::new("keeper").container("app", "exec sleep 1000000")).await;
    node.await_running("keeper", "app").await;
    node
}

/// Runs the whole sequence and returns what pods reported.
async fn play(node: &NodeRig, lasts: Duration, has_restarts: bool) -> Found {
    let count = FEWEST_PODS.max(usize::try_from(lasts.as_secs() / 3).unwrap());
    let failures = Failures::follow(node.pods(), Api::namespaced(node.kube(), "default"));
    let begun = Instant::now();
    let mut players = JoinSet::new();
    for part in script::parts(SEED, count, lasts) {
        players.spawn(play_part(node.pods(), node.name().to_owned(), part, begun));
    }
    for turn in 0.. {
        if begun.elapsed() >= lasts {
            break;
        }
        if has_restarts {
            everything::restart(node, turn, IMPORTS).await;
        }
        let tag = format!("docker.io/library/unused:{}", begun.elapsed().as_millis());
        node.import(&[Image::new(&[&tag], &[Layer::busybox()])]).await;
        sleep(lasts / IMPORTS).await;
    }
    players.join_all().await;
    let (found, pods) = failures.end().await;
    assert!(pods > count, "{pods} pods");
    println!("{} had {pods} pods, {:?}", node.name(), begun.elapsed());
    found
}

async fn play_part(pods: Api<Pod>, node: String, part: Part, begun: Instant) {
    for Life { at, until, shape } in part.lives {
        sleep_until(begun + at).await;
        create(&pods, &shape.pod(&part.name), &node).await;
        let Some((end, ending)) = until else { return };
        sleep_until(begun + end).await;
        let how = match ending {
            Ending::Graceful => DeleteParams::default(),
            Ending::Forced => DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() },
        };
        let deleted = pods.delete(&part.name, &how).await;
        // The client sends a call again to which a busy server answered 504, although it was carried out.
        let is_gone = matches!(&deleted, Err(kube::Error::Api(status)) if status.code == 404);
        assert!(is_gone || deleted.is_ok(), "{}: {deleted:?}", part.name);
    }
}

/// Creates a pod as soon as its name is free.
async fn create(pods: &Api<Pod>, pod: &Manifest, node: &str) {
    let object: Pod = serde_json::from_value(pod.bound_to(node)).unwrap();
    let made = async {
        loop {
            match pods.create(&PostParams::default(), &object).await {
                Err(kube::Error::Api(status)) if status.code == 409 => sleep(Duration::from_millis(500)).await,
                made => break made.unwrap(),
            }
        }
    };
    let is_made = timeout(RENAMES, made).await.is_ok();
    assert!(is_made, "on {node} an earlier {} stays: {:#?}", pod.name(), pods.get_opt(pod.name()).await);
}
