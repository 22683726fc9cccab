//! kubegc on a real node: etcd, kube-apiserver, kubelet and containerd, with pods that really run.

mod the_rig;
