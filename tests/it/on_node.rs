//! kubegc on a real node: etcd, kube-apiserver, kubelet and containerd, with pods that really run.

mod agent;
mod churn;
mod late_starts;
mod living_pods;
mod outages;
mod rights;
mod service;
mod the_rig;
mod waiting_pods;
