#!/usr/bin/env bash
# Runs one real node for experiments: etcd, kube-apiserver, containerd and kubelet in a cell, as in the tests.
#
#   scripts/node.sh up [GIB]        starts the node and prints how to use it; with a number on a disk of its own of that size
#   scripts/node.sh fill            fills that disk with what fills disks: unused images, logs, a volume, the directory of a
#                                   deleted pod, a core dump, a deleted file that is open
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

ctr() { "$(cat "$dir/runtime")/bin/ctr" --address "$dir/run/containerd.sock" --namespace k8s.io "$@"; }

# imported WORK NAME…: imports images with busybox and what WORK/root has.
imported() {
  local work=$1
  shift
  images "$work" "$(scripts/containerd.sh | awk -F '\t' '$1 == "busybox" { print $2 }')/busybox" "$@"
  ctr images import --snapshotter overlayfs "$work/images.tar" >/dev/null
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

api() {
  local path=$1
  shift
  curl -sf --cacert "$dir/pki/ca.crt" -H 'Authorization: Bearer admin-token' "https://$address:6443$path" "$@"
}

# Whether the condition Ready is True. tr removes the white space, because the JSON may have it anywhere.
ready() { api "/api/v1/nodes/$address" | tr -d ' \n' | grep '"type":"Ready","status":"True"' >/dev/null; }

# own_disk GIB: puts the directory on a disk of that size.
own_disk() {
  truncate -s "$1G" "$dir.ext4"
  mkfs.ext4 -q -F "$dir.ext4"
  mkdir "$dir"
  mount -o loop "$dir.ext4" "$dir"
}

up() {
  [ ! -e "$dir" ] || die "a node is up, or was not taken down: scripts/node.sh down"
  scripts/setup.sh
  [ -z "$1" ] || own_disk "$1"
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
  local pause runtime
  runtime=$(scripts/containerd.sh | awk -F '\t' -v version="$containerd" '$1 == version { print $2 }')
  echo "$runtime" >"$dir/runtime"
  pause=$(cat "$runtime/sandbox-image")
  await "containerd does not answer" ctr version
  imported "$dir/images" "$pause" docker.io/library/app:1
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

# data PERCENT FILE: writes a file that takes so much of the disk.
data() {
  mkdir -p "$(dirname "$2")"
  head -c "$(($(stat -f -c '%b * %S / 100' "$dir") * $1))" /dev/urandom >"$2"
}

# pod NAME SHELL: runs a pod with a volume at /data.
pod() {
  printf '{"metadata":{"name":"%s"},"spec":{"nodeName":"%s","hostNetwork":true,"containers":[{"name":"app",
    "image":"docker.io/library/app:1","imagePullPolicy":"Never","command":["/bin/sh","-c","%s"],
    "volumeMounts":[{"name":"data","mountPath":"/data"}]}],"volumes":[{"name":"data","emptyDir":{}}]}}' "$1" "$address" "$2" |
    api /api/v1/namespaces/default/pods -H 'Content-Type: application/json' --data @- >/dev/null
}

fill() {
  mountpoint -q "$dir" || die "the node has no disk of its own: scripts/node.sh up GIB"
  local number orphan=0f1e2d3c-4b5a-4697-8877-665544332211 percent=$(($(stat -f -c '%b * %S / 104857600' "$dir")))
  for number in 1 2 3; do
    data 5 "$dir/image/root/data"
    imported "$dir/image" "docker.io/library/old:$number"
    rm -rf "$dir/image"
  done
  pod writer "busybox head -c $((percent * 8))m /dev/zero >/data/cache; sleep 1000000"
  pod looping "busybox yes looping | busybox head -c ${percent}m; exit 1"
  data 9 "$dir/kubelet/pods/$orphan/volumes/kubernetes.io~empty-dir/cache/data"
  data 10 "$dir/cores/core.db"
  data 5 "$dir/spool"
  inside sh -c 'exec 3<"$1"; rm "$1"; exec sleep 1000000' open "$dir/spool" >/dev/null 2>&1 &
  await "no file was deleted" test ! -e "$dir/spool"
  df -h "$dir"
}

down() {
  [ -d "$dir" ] || die "no node is up"
  # Without a writer on the pipe the cell ends, and the kernel kills all its processes.
  [ ! -e "$dir/holder" ] || kill "$(cat "$dir/holder")" 2>/dev/null || true
  for _ in {1..100}; do
    kill -0 "$(cat "$dir/cell" 2>/dev/null)" 2>/dev/null || break
    sleep 0.1
  done
  ! mountpoint -q "$dir" || umount "$dir"
  rm -rf "$dir" "$dir.ext4"
}

case ${1:-} in
  up) up "${2:-}" ;;
  fill) fill ;;
  down) down ;;
  order) shift; order "$@" ;;
  exec) shift; inside "$@" ;;
  *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
