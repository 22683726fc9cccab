//! kubegc on a real node: etcd, kube-apiserver, kubelet and containerd, with pods that really run.

mod agent;
mod churn;
mod daemonset;
mod ending_pods;
mod late_starts;
mod node_rig;
mod one_namespace;
mod outages;
mod pending_pods;
mod permissions;
mod running_pods;
mod service;
