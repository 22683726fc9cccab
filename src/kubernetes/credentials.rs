//! Who speaks to a server, and how that server proves itself: kubeconfig, tokens, client certificates, exec plugins, TLS.

pub(super) mod access;
pub(super) mod config_overrides;
pub(super) mod exec_plugin;
pub(super) mod id_token;
pub(super) mod kubeconfig;
pub(super) mod proxies;
pub(super) mod target;
pub(super) mod tls;
