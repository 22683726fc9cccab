#!/usr/bin/env bash
# Runs programs in a cell: their own pid and mount namespaces. The script reads orders from standard input.
#
#   scripts/cell.sh DIR CGROUP
#
# DIR/start has an executable for each program that the cell can run. The script sources DIR/enter first, if it exists;
# it mounts the cell's own directories. DIR/NAME.log has the output of program NAME. The script prints each order when
# it is done:
#
#   start NAME    starts the program, or starts it again; its child processes survive, as when a service is restarted
#   stop NAME     sends SIGTERM, and SIGKILL after 5 s, as a service manager does
#   kill NAME     sends SIGKILL
#   pause NAME    sends SIGSTOP; resume NAME sends SIGCONT
#
# End of input ends the cell: the kernel kills all its processes and drops its mounts, and the script unmounts a disk at
# DIR/containerd, DIR/crio or DIR/crio/images. So a test leaves nothing but files, even if it is killed. DIR/pid has the process
# whose namespaces can be entered (`nsenter --target PID --mount --pid`).
set -euo pipefail

if [ "${1:-}" != inside ]; then
  dir=$1 cgroup=$2
  trap '' INT # Ctrl-C ends the test, and the end of the test ends the cell
  unshare --mount --pid --fork --propagation slave "$0" inside "$dir" && status=0 || status=$?
  for disk in "$dir/containerd" "$dir/crio/images" "$dir/crio"; do
    if mountpoint -q "$disk"; then umount "$disk"; fi
  done
  # The pods' cgroups, which are empty now, in every cgroup hierarchy of the machine.
  for top in /sys/fs/cgroup"$cgroup" /sys/fs/cgroup/*"$cgroup"; do
    [ ! -d "$top" ] || find "$top" -depth -type d -exec rmdir {} +
  done
  exit "$status"
fi

dir=$2
declare -A pids
# /proc is still that of the host, so it shows the pid that processes outside the cell can use.
read -r pid _ </proc/self/stat
echo "$pid" >"$dir/pid"
mount -t proc proc /proc
# Shims have their sockets in the first directory, and pods their network namespaces in the second. No configuration
# changes these paths. The third directory has the lock of the node's agent, and each cell is a node.
for shared in /run/containerd /run/netns /run/kubegc; do
  mkdir -p "$shared"
  mount -t tmpfs tmpfs "$shared"
done
# shellcheck source=/dev/null
[ ! -e "$dir/enter" ] || . "$dir/enter"

# runs PID: whether the process runs. A zombie does not.
runs() { [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }

stop() {
  kill "$1" || return 0
  kill -CONT "$1" || true
  for _ in {1..100}; do
    runs "$1" || return 0
    sleep 0.05
  done
  kill -KILL "$1" || true
}

while read -r order name; do
  pid=${pids[$name]:-}
  case $order in
    start)
      "$dir/start/$name" </dev/null >>"$dir/$name.log" 2>&1 &
      pids[$name]=$! ;;
    stop) stop "$pid"; wait "$pid" 2>/dev/null || true ;;
    kill) kill -KILL "$pid" || true; wait "$pid" 2>/dev/null || true ;;
    pause) kill -STOP "$pid" ;;
    resume) kill -CONT "$pid" ;;
  esac
  echo "$order $name" # done
done
