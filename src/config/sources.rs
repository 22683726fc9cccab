//! Where settings come from, beside their defaults: files, the environment, the kubelet, and the sockets of runtimes.

pub(super) mod environment;
pub(super) mod files;
pub(super) mod kubelet_config;
pub(super) mod kubelet_eviction;
pub(super) mod layers;
pub(super) mod sockets;
