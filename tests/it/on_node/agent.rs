//! kubegc as the scenarios run it: one-shot passes with pods from the API, and guards with short durations.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::rig::{NodeRig, Ran};

/// How long a pod must be missing before it counts as deleted.
pub const GONE_AFTER: Duration = Duration::from_secs(3);

/// kubegc on a node, with the shipped permissions.
pub struct Agent<'a> {
    node: &'a NodeRig,
    config: String,
}

// === impl Agent ===

impl<'a> Agent<'a> {
    /// Grants the permissions and writes the configuration.
    pub async fn on(node: &'a NodeRig) -> Self {
        node.grant_shipped_permissions("kubegc").await;
        let config = format!(
            r#"
            node = "{node}"
            [images]
            high_threshold_percent = 100
            min_age = "0s"
            [guards]
            gone_after = "{gone_after}s"
            settle = "0s"
            fall_hold = "0s"
            sandbox_grace = "1s"
            [pods]
            source = "kube-api"
            kubeconfig = "{kubeconfig}"
            "#,
            node = node.name(),
            gone_after = GONE_AFTER.as_secs(),
            kubeconfig = node.kubeconfig("kubegc").display(),
        );
        Self { node, config: node.write_config("kubegc", &config) }
    }

    /// Makes one pass, which must succeed.
    pub fn collect(&self) -> Ran {
        self.collect_with(&[])
    }

    /// Makes one pass with more flags.
    pub fn collect_with(&self, flags: &[&str]) -> Ran {
        self.try_collect_with(flags).ok()
    }

    /// Makes one pass with more flags, which may fail.
    pub fn try_collect_with(&self, flags: &[&str]) -> Ran {
        self.node.kubegc(&[&["collect", "--config", &self.config], flags].concat())
    }

    /// Makes passes until no object of a pod is left, for two minutes at most.
    pub async fn collect_all_of(&self, pod: &str, uid: &str) {
        let mut left = BTreeSet::new();
        for _ in 0..120 {
            self.collect();
            left = self.node.objects_of(pod, uid).await;
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("left of {pod}: {left:#?}; kubegc says {:#?}", self.collect());
    }
}
