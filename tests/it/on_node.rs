//! kubegc on a real node: etcd, kube-apiserver, kubelet and containerd, with pods that really run.

mod agent;
mod daemonset;
mod ending_pods;
mod living_pods;
mod rights;
mod the_rig;
