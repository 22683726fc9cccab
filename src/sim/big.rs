//! Large nodes, for benchmarks and limits.

use std::time::Duration;

use super::MIB;
use super::sim_node::Node;

// === impl Node ===

impl Node {
    /// Creates a node with this many containers and images. The containers are created one per second up to the node's
    /// time. Each pod has five: two exited and three running. The images share ten base layers, and every second image
    /// is in use. No logs.
    pub fn big(containers: usize, images: usize) -> Self {
        let tag = |image: usize| format!("registry.example/big/image-{image}:1");
        let mut node = Self::new().without_logs().disk(1 << 50, 0);
        for image in 0..images {
            let base = format!("base-{}", image % 10);
            node = node.image(&tag(image), &[(&base, 50 * MIB), (&format!("own-{image}"), MIB)]);
        }
        let used = images.div_ceil(2).max(1);
        for container in 0..containers {
            node = node.ago(Duration::from_secs((containers - container) as u64));
            node = node.big_container(container, &tag((container % used) * 2));
        }
        node.ago(Duration::ZERO)
    }

    fn big_container(mut self, number: usize, image: &str) -> Self {
        let (pod, place) = (number / 5, number % 5);
        if place == 0 {
            self = self.pod("big", &format!("pod-{pod}"), &format!("00000000-0000-0000-0000-{pod:012}"));
        }
        match place {
            0 | 1 => self.exited("app", image),
            2 => self.running("app", image),
            3 => self.running("proxy", image),
            _ => self.running("logger", image),
        }
    }
}
