#!/usr/bin/env bash
# Runs one real node for experiments: etcd, kube-apiserver, containerd and kubelet in a cell, as in the tests.
#
#   scripts/node.sh up              starts the node and prints how to use it
#   scripts/node.sh order WORDS     sends an order, such as `order pause kubelet`; scripts/cell.sh lists the orders
#   scripts/node.sh exec COMMAND…   runs a command in the cell, where all paths are those of a real node
#   scripts/node.sh down            stops the node and everything on it
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${TMPDIR:-/tmp}/kubegc-node address=127.107.103.99 cgroup=/kubegc-node

die() { printf 'node.sh: %s\n' "$*" >&2; exit 1; }

# images WORK BUSYBOX NAME…: writes an image with busybox for each name to WORK/images.tar, in the format of
# `docker save`.
images() {
  local work=$1 busybox=$2 layer manifest='' name
  shift 2
  mkdir -p "$work/root"/{bin,tmp,etc,proc,sys,dev}
  cp "$busybox" "$work/root/bin"
  ln -sf busybox "$work/root/bin/sh"
  ln -sf busybox "$work/root/bin/sleep"
  tar -C "$work/root" --numeric-owner --owner=0 --group=0 -cf "$work/layer.tar" .
  layer=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
  for name in "$@"; do
    # The label makes the images different: two images with the same configuration have the same id.
    printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/bin/sleep","1000000"],"Env":["PATH=/bin"],"Labels":{"made-as":"%s"}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
      "$(dpkg --print-architecture)" "$name" "$layer" >"$work/${name//[!a-z0-9]/-}.json"
    manifest+=$(printf '{"Config":"%s.json","RepoTags":["%s"],"Layers":["layer.tar"]},' "${name//[!a-z0-9]/-}" "$name")
  done
  printf '[%s]' "${manifest%,}" >"$work/manifest.json"
  (cd "$work" && tar -cf images.tar ./*.json layer.tar --transform 's#^\./##')
}

# await WHAT COMMAND…: retries the command until it succeeds, for at most a minute.
await() {
  local what=$1
  shift
  for _ in {1..300}; do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.2
  done
  die "$what; the logs are in $dir"
}

order() {
  [ -p "$dir/orders" ] || die "no node is up"
  echo "$*" >"$dir/orders"
}

inside() { nsenter --target "$(cat "$dir/pid")" --mount --pid --wd="$PWD" -- "$@"; }

api() { curl -sf --cacert "$dir/pki/ca.crt" -H 'Authorization: Bearer admin-token' "https://$address:6443$1"; }

# Whether the condition Ready is True. tr removes the white space, because the JSON may have it anywhere.
ready() { api "/api/v1/nodes/$address" | tr -d ' \n' | grep '"type":"Ready","status":"True"' >/dev/null; }

up() {
  [ ! -e "$dir" ] || die "a node is up, or was not taken down: scripts/node.sh down"
  scripts/setup.sh
  # A kubelet before 1.23 does not speak the CRI of containerd 2.
  local containerd=2
  ! scripts/kubernetes.sh | grep -E $'^kubernetes\t.*\t1\.2[0-2]\.' >/dev/null || containerd=1.7
  scripts/node-files.sh "$dir" "$address" "$cgroup" "$containerd"
  mkfifo "$dir/orders"
  # The cell runs as long as a process has the pipe open for writing. This process holds it open.
  setsid sleep infinity </dev/null >"$dir/orders" 2>/dev/null & echo $! >"$dir/holder"
  setsid scripts/cell.sh "$dir" "$cgroup" <"$dir/orders" >"$dir/answers" 2>&1 &
  echo $! >"$dir/cell"
  for program in etcd kube-apiserver containerd kubelet; do order start "$program"; done
  local ctr pause runtime
  runtime=$(scripts/containerd.sh | awk -F '\t' -v version="$containerd" '$1 == version { print $2 }')
  ctr=("$runtime/bin/ctr" --address "$dir/run/containerd.sock" --namespace k8s.io)
  pause=$(cat "$runtime/sandbox-image")
  await "containerd does not answer" "${ctr[@]}" version
  images "$dir/images" "$(scripts/containerd.sh | awk -F '\t' '$1 == "busybox" { print $2 }')/busybox" \
    "$pause" docker.io/library/app:1
  "${ctr[@]}" images import --snapshotter overlayfs "$dir/images/images.tar" >/dev/null
  await "the node does not become Ready" ready
  summary
}

summary() {
  cat <<END
The node $address is up. All that it has is in $dir.

  export KUBECONFIG=$dir/kubeconfig/admin      (others there: kubelet, kubegc, restricted)
  runtime endpoint    unix://$dir/run/containerd.sock
  pod logs            $dir/logs/pods, links in $dir/logs/containers
  kubelet             root $dir/kubelet, configuration $dir/kubelet.yaml, static pods $dir/manifests
  logs of programs    $dir/*.log

Inside its namespaces all paths are a real node's; kubegc runs there as it would on one:

  scripts/node.sh exec $PWD/target/*/debug/kubegc plan

Pods need "nodeName": "$address", "hostNetwork": true, the image docker.io/library/app:1 (busybox) and
"imagePullPolicy": "Never". One is made with

  curl --cacert $dir/pki/ca.crt -H 'Authorization: Bearer admin-token' -H 'Content-Type: application/json' \\
    https://$address:6443/api/v1/namespaces/default/pods --data @pod.json

make node-down ends it.
END
}

down() {
  [ -d "$dir" ] || die "no node is up"
  # Without a writer on the pipe the cell ends, and the kernel kills all its processes.
  [ ! -e "$dir/holder" ] || kill "$(cat "$dir/holder")" 2>/dev/null || true
  for _ in {1..100}; do
    kill -0 "$(cat "$dir/cell" 2>/dev/null)" 2>/dev/null || break
    sleep 0.1
  done
  rm -rf "$dir"
}

case ${1:-} in
  up) up ;;
  down) down ;;
  order) shift; order "$@" ;;
  exec) shift; inside "$@" ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
