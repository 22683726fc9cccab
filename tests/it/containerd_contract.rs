//! Runs the contract on three containerd versions.

use kubegc::cri::generated as pb;

use crate::contract::{Runtime, SINGLE, TWICE, contract};
use crate::rig::{Image, Layer, Rig, Version};

contract!(in_turn containerd_1_6_contract, Rig::start(Version::V1_6));
contract!(in_turn containerd_1_7_contract, Rig::start(Version::V1_7));
contract!(in_turn containerd_2_contract, Rig::start(Version::V2));

// === impl Rig ===

impl Runtime for Rig {
    fn endpoint(&self) -> String {
        Self::endpoint(self)
    }

    fn sandbox_config(&self, namespace: &str, name: &str, uid: &str) -> pb::PodSandboxConfig {
        Self::sandbox_config(self, namespace, name, uid)
    }

    async fn import_images(&self) {
        let busybox = Layer::busybox();
        let twice = Image::new(&TWICE, &[busybox.clone(), Layer::filled("twice", 1)]);
        self.import(&[twice, Image::new(&[SINGLE], &[busybox])]).await;
    }
}
