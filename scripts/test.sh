#!/usr/bin/env bash
# Runs tests. Without an argument: all that a commit needs (`make test`). Otherwise one of these parts:
#
#   fast      those that need neither root nor containerd
#   node      those on a real node or API server
#   long      the six parts below, one after the other (`make test-long`)
#   random    the properties (proptest) on 5,000 new random inputs each; `make test` has the same 256 in every run
#   soak      the agent beside a runtime whose pods come and go, for ten minutes
#   churn     fifty pods that come and go for five minutes, beside a kubelet, with and without the agent
#   kills     the leader of two controllers is killed 9 times, the API server 50 times
#   forests   600 random forests of objects, collected by kube-controller-manager and by kubegc
#   release   the files of a release for both architectures, built from a clean checkout
#
# It uses cargo-nextest if that is installed, else `cargo test`. The tests are the same; nextest is quicker and runs
# each test in its own process. The script does not install it, because building it takes longer than all tests.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'test.sh: %s\n' "$*" >&2; }

# The same random inputs in every run, so that a commit fails only for what it has changed. `random` finds the rest.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

# tests FILTER SKIPPED: runs the tests of a filter of nextest; SKIPPED are the names that `cargo test` leaves out instead.
tests() {
  if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --locked --no-fail-fast ${1:+-E "$1"}
  else
    # shellcheck disable=SC2086
    cargo test --locked --no-fail-fast -- $2
  fi
}

# only NAME [OPTION…]: runs the tests with this text in their names.
only() {
  local name=$1
  shift
  if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --locked --no-fail-fast "$@" -E "test($name)"
  else
    cargo test --locked --no-fail-fast -- ${1:+--include-ignored} "$name"
  fi
}

# prepare: downloads and builds what the tests need beside the tests themselves.
prepare() {
  say "preparing containerd and Kubernetes; the first run builds Kubernetes, about 5 minutes"
  scripts/setup.sh
}

fast() {
  say "building, then running the 1,200 tests that need no root: about 4 minutes on 2 cores after the build"
  scripts/setup.sh build
  local root=(as_root containerd on_node promtool prometheus in_browser manifests::chart)
  local pattern
  pattern=$(IFS='|' && printf '%s' "${root[*]}")
  tests "not test(/$pattern/)" "${root[*]/#/--skip }"
}

random() {
  say "random: 5 minutes"
  (unset PROPTEST_RNG_SEED && PROPTEST_CASES=${PROPTEST_CASES:-5000} only properties)
}

soak() {
  say "soak: 10 minutes"
  KUBEGC_SOAK_SECONDS=${KUBEGC_SOAK_SECONDS:-600} only in_a_soak
}

churn() {
  say "churn: 7 minutes"
  KUBEGC_CHURN_SECONDS=${KUBEGC_CHURN_SECONDS:-300} only on_node::churn
}

kills() {
  say "kills: 10 minutes"
  KUBEGC_KILLS=${KUBEGC_KILLS:-9} only each_leader_is_killed
  KUBEGC_RESTARTS=${KUBEGC_RESTARTS:-50} only killed_again_and_again
}

forests() {
  local seed
  say "forests: 10 minutes"
  for seed in ${KUBEGC_SEED:-1 2 3}; do
    KUBEGC_SEED=$seed KUBEGC_FORESTS=${KUBEGC_FORESTS:-200} only upstream_collector --run-ignored all
  done
}

release() {
  local files
  say "release: 30 minutes"
  scripts/setup.sh release
  files=$(scripts/release.sh --snapshot)
  printf '%s\n' "$files" >&2
  KUBEGC_RELEASE=$(sed -nE '1s/.*, in (.+):$/\1/p' <<<"$files")
  export KUBEGC_RELEASE
  only of_a_release --run-ignored only
}

long() {
  say "random 5 minutes, soak 10, churn 7, kills 10, forests 10, the files of a release 30: about 72 minutes on 2 cores"
  prepare
  random && soak && churn && kills && forests && release
}

case ${1:-} in
  '')
    say "building, then running about 1,460 tests: about 10 minutes on 2 cores after the build"
    say "they use containerd 1.6, 1.7 and 2.x and real nodes; \`make test-fast\` runs those that need no root"
    prepare
    tests '' ''
    ;;
  node) say "the tests on a real node or API server: about 8 minutes on 2 cores" && prepare && only on_node ;;
  fast | long) "$1" ;;
  random) scripts/setup.sh build && random ;;
  soak | churn | kills | forests) prepare && "$1" ;;
  release) release ;;
  *) sed -n '2,15s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
