//! kubegc on a real node: etcd, kube-apiserver, kubelet and containerd, with pods that really run.

mod agent;
mod agent_starts_first;
mod churn;
mod cluster_cases;
mod cluster_faults;
mod cluster_replicas;
mod controller;
mod controller_health;
mod controller_permissions;
mod daemonset;
mod distributions;
mod envtest;
mod namespaced_permissions;
mod node_rig;
mod owner_forests;
mod pending_pods;
mod permissions;
mod pod_source_outages;
mod pods_at_cluster_level;
mod random;
mod readme;
mod running_pods;
mod service;
mod terminated_pods;
mod upstream_collector;
