//! The simulated node held to the contract, and next to the program that really uses it.

use kubegc::cri::generated as pb;
use kubegc::sim::{MIB, Node, Sim, Streaming};

use crate::contract::{Runtime, SINGLE, TWICE, contract};

contract!(sim_contract, async { Sim::start(Node::new()).unwrap() });

contract!(sim_streaming_contract, async { Sim::start(Node::new().streaming(Streaming::Batches(1))).unwrap() });

contract!(sim_in_the_callers_runtime_contract, async { Sim::start_here(Node::new()).unwrap() });

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
            node.image(SINGLE, &[("base", 4 * MIB)])
        };
        self.state().also(import).unwrap();
    }
}
