#!/usr/bin/env bash
# Runs a program that cargo built. Tests and benchmarks get a network namespace of their own, in which nothing but the loopback
# interface exists: no port of the machine or of another test is in their way, and they reach no other machine. nextest
# starts this once for each test. Cargo and nextest find this script in .cargo/config.toml. The namespace has one address
# beside the loopback addresses, 192.0.2.1, so that a test can distinguish them.
#
# A normal user may not create network namespaces, so then the tests use the machine's network.
#
# KUBEGC_CPU_TIMES=FILE adds a line for each test to FILE: the processor time of all its processes in seconds, and its name
# (scripts/test-times.py shows them). Containers of pods have cgroups of their own and do not count.
set -euo pipefail

isolated() {
  command -v ip >/dev/null || { echo "test-runner.sh: missing: ip. Install with: apt-get install iproute2" >&2; exit 1; }
  exec unshare --net -- /bin/sh -c 'ip link set lo up && ip address add 192.0.2.1/32 dev lo && exec "$@"' sh "$@"
}

# counted COMMAND…: runs a command in a cgroup (v1) of its own.
counted() {
  local group=/sys/fs/cgroup/cpuacct/kubegc-test-$$ status=0
  mkdir "$group"
  sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$group" "$@" || status=$?
  echo "$(($(<"$group/cpuacct.usage") / 1000000))e-3 ${*: -2:1}" >>"$KUBEGC_CPU_TIMES"
  rmdir "$group" || true # a process that ends later
  exit "$status"
}

case $1 in
  */deps/*) [ -z "${KUBEGC_CPU_TIMES:-}" ] || [ -n "${KUBEGC_COUNTED:-}" ] || KUBEGC_COUNTED=1 counted "$0" "$@" ;;
esac
case $1 in
  */deps/*) [ "$(id -u)" -ne 0 ] || isolated "$@" ;;
esac
exec "$@"
