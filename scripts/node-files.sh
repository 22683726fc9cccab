#!/usr/bin/env bash
# Writes all files that a real node needs to run in a cell (`scripts/cell.sh`): etcd, kube-apiserver, containerd,
# kubelet. A test may also start kube-controller-manager, with its garbage collector alone.
#
#   scripts/node-files.sh DIR ADDRESS CGROUP CONTAINERD [KUBELET FLAG…]
#
# ADDRESS is a loopback address (127.x.y.z) that no other node has: all ports are the usual ones, on that address. It is
# also the node's name, because a kubelet accepts a loopback address as its own only then. CONTAINERD is a version of
# `scripts/containerd.sh`. A kubelet before 1.23 speaks CRI v1alpha2 only, and containerd 2 does not.
#
# In the cell all paths are those of a real node, bound to directories below DIR:
#
#   DIR/run          /run/containerd, with containerd.sock       DIR/kubelet         /var/lib/kubelet
#   DIR/containerd   /var/lib/containerd                         DIR/logs            /var/log
#   DIR/manifests    of static pods
#
# DIR/kubeconfig/NAME: admin has all permissions, and kubelet is the kubelet's own. kubegc, restricted, and the service
# accounts of packaging/ (account, controller and audit) have no permissions until a binding grants some. DIR/audit.log
# has the requests of the service accounts. DIR/kubelet.yaml is the kubelet's configuration.
set -euo pipefail

dir=$1 address=$2 cgroup=$3 version=$4
shift 4

here=$(dirname "$0")
found=$("$here/containerd.sh") || exit
found+=$'\n'$("$here/kubernetes.sh") || exit
# where NAME: prints the directory that a script printed for NAME.
where() { awk -F '\t' -v name="$1" '$1 == name { print $2 }' <<<"$found"; }
runtime=$(where "$version")/bin
kubernetes=$(where kubernetes)/bin
kubernetes_version=$(awk -F '\t' '$1 == "kubernetes" { print $3 }' <<<"$found")
# since VERSION: whether the programs of Kubernetes have at least this version.
since() { [ "$(printf '%s\n' "$1" "$kubernetes_version" | sort --version-sort | head -n 1)" = "$1" ]; }
etcd=$(where etcd)/bin
pause=$(cat "$(where "$version")/sandbox-image")
pki=$dir/pki

mkdir -p "$dir"/{start,run,cni,containerd,kubelet,manifests,logs/pods,logs/containers,kubeconfig,pki}

# --- Identities: one certificate authority, its certificates, and tokens.

printf '[req]\ndistinguished_name = name\n[name]\n' >"$pki/openssl.cnf"

# certificate NAME SUBJECT EXTENSION…: writes NAME.crt and NAME.key.
certificate() {
  local name=$1 subject=$2 extensions=() by=(-CA "$pki/ca.crt" -CAkey "$pki/ca.key")
  shift 2
  for extension in "$@"; do extensions+=(-addext "$extension"); done
  [ "$name" != ca ] || by=()
  openssl req -x509 -config "$pki/openssl.cnf" -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
    -subj "$subject" "${extensions[@]}" "${by[@]}" -keyout "$pki/$name.key" -out "$pki/$name.crt" 2>"$pki/log" ||
    { cat "$pki/log" >&2; exit 1; }
}

server="subjectAltName=IP:$address,DNS:localhost,DNS:kubernetes.default.svc"
certificate ca /CN=kubegc-rig basicConstraints=critical,CA:TRUE
certificate apiserver /CN=kube-apiserver "$server" extendedKeyUsage=serverAuth
certificate kubelet "/CN=$address" "$server" extendedKeyUsage=serverAuth
certificate apiserver-client /O=system:masters/CN=kube-apiserver-kubelet-client extendedKeyUsage=clientAuth
certificate kubelet-client "/O=system:nodes/CN=system:node:$address" extendedKeyUsage=clientAuth

# Token, user, uid, groups.
cat >"$pki/tokens.csv" <<END
admin-token,admin,1,"system:masters"
kubegc-token,kubegc,2
restricted-token,restricted,3
account-token,system:serviceaccount:kubegc-system:kubegc,4,"system:serviceaccounts,system:serviceaccounts:kubegc-system"
controller-token,system:serviceaccount:kubegc-system:kubegc-controller,5,"system:serviceaccounts,system:serviceaccounts:kubegc-system"
audit-token,system:serviceaccount:kubegc-system:kubegc-audit,6,"system:serviceaccounts,system:serviceaccounts:kubegc-system"
END

# kubeconfig NAME CREDENTIAL: CREDENTIAL is the user's part, as YAML in braces.
kubeconfig() {
  cat >"$dir/kubeconfig/$1" <<END
apiVersion: v1
kind: Config
clusters: [{name: rig, cluster: {server: "https://$address:6443", certificate-authority: "$pki/ca.crt"}}]
users: [{name: $1, user: $2}]
contexts: [{name: rig, context: {cluster: rig, user: $1}}]
current-context: rig
END
}

for user in admin kubegc restricted account controller audit; do kubeconfig "$user" "{token: $user-token}"; done
kubeconfig kubelet "{client-certificate: $pki/kubelet-client.crt, client-key: $pki/kubelet-client.key}"

# --- The programs.

# program NAME COMMAND…: writes the executable that the cell starts as NAME. These programs are in Go and live for a minute, beside others on few
# cores: they may have four times the memory before they collect it.
program() {
  local name=$1
  shift
  printf '#!/bin/sh\nexport PATH="%s:/usr/sbin:/usr/bin:/sbin:/bin" GOGC=400 GOMEMLIMIT=%s\nexec %s\n' \
    "$runtime" "${GOMEMLIMIT:-1GiB}" "${*@Q}" >"$dir/start/$name"
  chmod +x "$dir/start/$name"
}

program etcd "$etcd/etcd" --data-dir=/var/lib/etcd --name=rig --initial-cluster="rig=http://$address:2380" \
  --listen-client-urls="http://$address:2379" --advertise-client-urls="http://$address:2379" \
  --listen-peer-urls="http://$address:2380" --initial-advertise-peer-urls="http://$address:2380" --unsafe-no-fsync

# No controller creates service accounts, so the admission plugin for them is disabled. No endpoints are reconciled, so
# the server accepts any address to advertise.
program kube-apiserver "$kubernetes/kube-apiserver" --etcd-servers="http://$address:2379" \
  --bind-address="$address" --secure-port=6443 --advertise-address=192.0.2.1 --endpoint-reconciler-type=none \
  --service-cluster-ip-range=198.51.100.0/24 --cert-dir=/var/lib/apiserver --client-ca-file="$pki/ca.crt" \
  --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" --token-auth-file="$pki/tokens.csv" \
  --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
  --admission-control-config-file="$dir/admission.yaml" \
  --disable-admission-plugins=ServiceAccount,TaintNodesByCondition --service-account-issuer=https://rig \
  --service-account-key-file="$pki/apiserver.crt" --service-account-signing-key-file="$pki/apiserver.key" \
  --kubelet-certificate-authority="$pki/ca.crt" --kubelet-client-certificate="$pki/apiserver-client.crt" \
  --kubelet-client-key="$pki/apiserver-client.key" --kubelet-preferred-address-types=InternalIP \
  --audit-policy-file="$dir/audit.yaml" --audit-log-path="$dir/audit.log" --audit-log-mode=blocking
# As on GKE: a pod with a critical priority class needs a quota for it in its namespace.
cat >"$dir/admission.yaml" <<END
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: ResourceQuota
    configuration:
      apiVersion: apiserver.config.k8s.io/v1
      kind: ResourceQuotaConfiguration
      limitedResources:
        - resource: pods
          matchScopes:
            - {scopeName: PriorityClass, operator: In, values: [system-node-critical, system-cluster-critical]}
END
cat >"$dir/audit.yaml" <<END
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - {level: Metadata, userGroups: ["system:serviceaccounts:kubegc-system"]}
  - {level: None}
END

# Only the collection by owner references, with the limits on its calls raised. Without the secure port it needs no
# certificate and makes no calls to authenticate its clients. Before 1.24 it has an insecure port too.
insecure=(--address="$address" --port=10252)
since 1.24 && insecure=()
program kube-controller-manager "$kubernetes/kube-controller-manager" --controllers=garbagecollector \
  --kubeconfig="$dir/kubeconfig/admin" --leader-elect=false --kube-api-qps=5000 --kube-api-burst=5000 --secure-port=0 \
  --cert-dir=/var/lib/controller-manager "${insecure[@]}"

program containerd "$runtime/containerd" --config "$dir/containerd.toml"
cat >"$dir/containerd.toml" <<END
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp", "io.containerd.nri.v1.nri",
]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  stream_server_address = "$address"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "$dir/cni"
  conf_dir = "$dir/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
END

# A node without a pod network is not ready. This one has a CNI configuration and no plugin: pods use the host network.
echo '{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "none"}]}' >"$dir/cni/none.conflist"

socket=unix:///run/containerd/containerd.sock
# Before 1.24 the kubelet has a runtime of its own, which runs Docker. From 1.27 on the runtime alone has the name of the
# sandbox image.
old=(--container-runtime=remote --pod-infra-container-image="$pause")
since 1.27 && old=()
# AWS_EC2_METADATA_DISABLED: otherwise the kubelet requests credentials from a cloud, and there is none.
program kubelet env AWS_EC2_METADATA_DISABLED=true "$kubernetes/kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$dir/kubeconfig/kubelet" \
  --hostname-override="$address" --container-runtime-endpoint="$socket" --image-service-endpoint="$socket" --runtime-cgroups=/ \
  --volume-plugin-dir=/var/lib/kubelet/volume-plugins --maximum-dead-containers-per-container=1000 "${old[@]}" "$@"
# The kubelet changes no packet filter and evicts nothing. Without a flag it removes no image, and no container of a pod
# that exists. The limit is 1000 and not -1 (no limit), because with -1 this kubelet keeps one dead container of a name.
# Its periodic checks have short intervals, so that tests are short.
cat >"$dir/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
readOnlyPort: 10255
healthzBindAddress: $address
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$pki/ca.crt"}}
authorization: {mode: Webhook}
tlsCertFile: $pki/kubelet.crt
tlsPrivateKeyFile: $pki/kubelet.key
staticPodPath: $dir/manifests
fileCheckFrequency: 1s
syncFrequency: 10s
nodeStatusUpdateFrequency: 2s
makeIPTablesUtilChains: false
resolvConf: ""
failSwapOn: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
cgroupRoot: $cgroup
kubeletCgroups: /
evictionHard: {imagefs.available: 0%}
imageGCHighThresholdPercent: 100
END
! since 1.30 || echo 'containerLogMonitorInterval: 3s' >>"$dir/kubelet.yaml"
# From 1.35 on the kubelet refuses to start on cgroup v1 unless this says that it may.
! since 1.31 || echo 'failCgroupV1: false' >>"$dir/kubelet.yaml"

# --- Mounts of the cell. The kubelet sets kernel parameters. The cell has its own files for them, with the values that
# the kubelet wants, so the kubelet changes nothing on the host.

cat >"$dir/enter" <<END
mount --bind "$dir/logs" /var/log
mount -t tmpfs tmpfs /var/lib
mkdir -p /var/lib/{kubelet,containerd}
mount --bind "$dir/run" /run/containerd
mount --bind "$dir/kubelet" /var/lib/kubelet
mount --bind "$dir/containerd" /var/lib/containerd
# As on a node with systemd: pods with mount propagation see later mounts. This applies only in the cell.
mount --make-rshared /
mkdir /var/lib/sysctl
while read -r key value; do
  [ -e "/proc/sys/\$key" ] || continue
  echo "\$value" >"/var/lib/sysctl/\${key##*/}"
  mount --bind "/var/lib/sysctl/\${key##*/}" "/proc/sys/\$key"
done <<'TABLE'
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
TABLE
END
