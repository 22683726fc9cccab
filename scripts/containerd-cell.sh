#!/usr/bin/env bash
# Runs a containerd in a cell: a pid and a mount namespace of its own, told what to do on standard input.
#
#   scripts/containerd-cell.sh BIN_DIR RIG_DIR CGROUP      (RIG_DIR holds config.toml)
#
# A line `start` starts containerd (again: its pods live on between, as when a service is restarted), `stop` ends it
# kindly, `kill` with SIGKILL. End of input ends the cell: the kernel kills shims and containers and drops their mounts,
# and a disk of its own that RIG_DIR has is unmounted, so that a test which dies, however it dies, leaves nothing but
# files. What containerd says is in RIG_DIR/containerd.log.
set -euo pipefail

if [ "${1:-}" != inside ]; then
  bin=$1 dir=$2 cgroup=$3
  trap '' INT # Ctrl-C ends the test, and that ends the cell
  unshare --mount --pid --fork --mount-proc --propagation slave "$0" inside "$bin" "$dir" && status=0 || status=$?
  if mountpoint -q "$dir"; then umount "$dir"; fi
  # The pods' cgroups, empty now, in whatever hierarchies the machine has.
  for top in /sys/fs/cgroup"$cgroup" /sys/fs/cgroup/*"$cgroup"; do
    [ ! -d "$top" ] || find "$top" -depth -type d -exec rmdir {} +
  done
  exit "$status"
fi

bin=$2 dir=$3 pid=
export PATH="$bin:$PATH"
# Shims keep their sockets in the one and pods their networks in the other, whatever the configuration says.
for shared in /run/containerd /run/netns; do
  mkdir -p "$shared"
  mount -t tmpfs tmpfs "$shared"
done

while read -r order; do
  case $order in
    start)
      containerd --config "$dir/config.toml" </dev/null >>"$dir/containerd.log" 2>&1 &
      pid=$! ;;
    stop) kill "$pid" || true; wait "$pid" || true ;;
    kill) kill -KILL "$pid" || true; wait "$pid" 2>/dev/null || true ;;
  esac
  echo "$order" # done
done
