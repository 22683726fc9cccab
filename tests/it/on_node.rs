//! kubegc on a real node: etcd, kube-apiserver, kubelet and containerd, with pods that really run.

mod agent;
mod churn;
mod daemonset;
mod ending_pods;
mod late_starts;
mod living_pods;
mod one_namespace;
mod outages;
mod rights;
mod service;
mod the_rig;
mod waiting_pods;
