//! Runs the contract on the simulated node, and compares it with the real program.

use std::time::Duration;

use kubegc::cri::generated::runtime_service_client::RuntimeServiceClient;
use kubegc::cri::{CriError, CriOptions, RuntimeReader, generated as pb};
use kubegc::sim::{Defect, Fault, MIB, Node, Rpc, Sim, Streaming, Times};
use tokio::time::Instant;

use crate::contract::{Runtime, SINGLE, TWICE, channel, contract};

contract!(alone sim_contract, async { Sim::start(Node::new()).unwrap() });

contract!(alone sim_as_crio_contract, async { Sim::start(Node::new().runtime("cri-o", "1.37.0")).unwrap() });

contract!(alone sim_streaming_contract, async { Sim::start(Node::new().streaming(Streaming::Batches(1))).unwrap() });

contract!(alone sim_in_the_callers_runtime_contract, async { Sim::start_here(Node::new()).unwrap() });

// === impl Sim ===

impl Runtime for Sim {
    fn endpoint(&self) -> String {
        Self::endpoint(self)
    }

    fn sandbox_config(&self, namespace: &str, name: &str, uid: &str) -> pb::PodSandboxConfig {
        let labels = [("pod.namespace", namespace), ("pod.name", name), ("pod.uid", uid)];
        pb::PodSandboxConfig {
            metadata: Some(pb::PodSandboxMetadata {
                name: name.to_owned(),
                uid: uid.to_owned(),
                namespace: namespace.to_owned(),
                attempt: 0,
            }),
            log_directory: self.log_roots().pods.join(format!("{namespace}_{name}_{uid}")).display().to_string(),
            labels: labels.map(|(key, value)| (format!("io.kubernetes.{key}"), value.to_owned())).into(),
            ..pb::PodSandboxConfig::default()
        }
    }

    async fn import_images(&self) {
        let import = |node: Node| {
            let node = node.image(TWICE[0], &[("base", 4 * MIB), ("twice", MIB)]).also_tagged(TWICE[1]);
            node.image(SINGLE, &[("base", 4 * MIB)]).image_config("2020-01-01T00:00:00Z", &[("made-as", SINGLE)])
        };
        self.state().also(import).unwrap();
    }
}

fn reader(sim: &Sim) -> RuntimeReader {
    RuntimeReader::new(&sim.endpoint(), &sim.endpoint(), CriOptions::default())
}

/// Returns the IDs in the list of containers, of which there are five.
async fn listed(defect: Defect, streaming: Streaming) -> Vec<String> {
    let sim = Sim::start_here(Node::big(5, 1).streaming(streaming)).unwrap();
    for method in [Rpc::ListContainers, Rpc::StreamContainers] {
        sim.fault(method, Fault::Answer(defect), Times::Forever);
    }
    let mut runtime = RuntimeServiceClient::new(channel(&sim.endpoint()));
    let mut listed = Vec::new();
    if streaming == Streaming::Unimplemented {
        listed = runtime.list_containers(pb::ListContainersRequest::default()).await.unwrap().into_inner().containers;
    } else {
        let mut batches = runtime.stream_containers(pb::StreamContainersRequest::default()).await.unwrap().into_inner();
        while let Some(batch) = batches.message().await.unwrap() {
            listed.extend(batch.containers);
        }
    }
    assert_eq!(sim.state().containers().len(), 5, "the node stays as it is");
    listed.into_iter().map(|container| container.id).collect()
}

#[tokio::test]
async fn a_list_has_the_requested_defect() {
    for streaming in [Streaming::Unimplemented, Streaming::Batches(5)] {
        let rows = [(Defect::Empty, 0), (Defect::Truncated, 2), (Defect::Twice, 10), (Defect::Garbage, 5)];
        for (defect, length) in rows {
            assert_eq!(listed(defect, streaming).await.len(), length, "{defect:?}");
        }
        let without = listed(Defect::WithoutId, streaming).await;
        assert_eq!(without.iter().map(String::is_empty).collect::<Vec<_>>(), [true, false, true, false, true]);
    }
}

#[tokio::test]
async fn a_single_object_has_the_requested_defect() {
    let sim = Sim::start_here(Node::new().image(TWICE[0], &[])).unwrap();
    sim.fault(Rpc::ImageStatus, Fault::Answer(Defect::Empty), Times::N(1));
    sim.fault(Rpc::ImageStatus, Fault::Answer(Defect::WithoutId), Times::N(1));
    assert_eq!(reader(&sim).image(TWICE[0]).await.unwrap(), None);
    let error = reader(&sim).image(TWICE[0]).await.unwrap_err();
    assert!(matches!(error, CriError::Defective { .. }), "an image without an id is no answer: {error}");
    assert!(reader(&sim).image(TWICE[0]).await.unwrap().is_some());
}

#[tokio::test]
async fn a_broken_connection_does_not_affect_the_next_one() {
    let sim = Sim::start_here(Node::big(5, 1)).unwrap();
    let reader = reader(&sim);
    reader.check().await.unwrap();
    sim.fault(Rpc::ListImages, Fault::BreakOff, Times::N(2));
    let error = reader.images().await.unwrap_err();
    assert!(matches!(error, CriError::Broken { .. }), "{error}");
    assert_eq!(sim.calls_of(Rpc::ListImages).len(), 2, "a broken connection is opened again once");
    assert_eq!(reader.images().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_takes_no_real_time() {
    let mut sim = Sim::start_here(Node::big(5, 1)).unwrap();
    let (reader, started) = (reader(&sim), Instant::now());
    reader.check().await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
    sim.fault(Rpc::ListImages, Fault::Hang, Times::N(1));
    let error = reader.images().await.unwrap_err();
    assert!(matches!(error, CriError::Timeout { .. }), "{error}");
    assert_eq!(started.elapsed().as_secs(), CriOptions::default().read_timeout.as_secs());
    sim.stop_listening();
    assert!(!sim.is_there() && reader.images().await.is_err());
    sim.listen_again().unwrap();
    assert!(sim.is_there() && reader.images().await.is_ok());
    sim.fault(Rpc::ListImages, Fault::Vanish, Times::N(1));
    assert!(reader.images().await.is_err() && !sim.is_there());
}

#[tokio::test]
async fn the_runtime_listens_since_the_time_that_was_set() {
    let sim = Sim::start_here(Node::new()).unwrap();
    let since = sim.state().time();
    sim.set_listening_since(since).unwrap();
    assert_eq!(reader(&sim).listening_since().await.unwrap(), since);
}
