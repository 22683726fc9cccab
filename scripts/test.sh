#!/usr/bin/env bash
# Runs tests. Without an argument: all that a commit needs (`make test`). Otherwise one of these parts:
#
#   fast      those that need neither root nor containerd
#   node      those on a real node or API server
#   long      the seven parts below, one after the other (`make test-long`); tests/long_parts.tsv has when each passed last
#   random    the properties (proptest) on 5,000 new random inputs each, all 20 made nodes, every small node and cluster, and 10,000
#             simulated lives of a cluster and 2,000 of a node; `make test` has the same 256 in every run, each tenth node, a part of the
#             small ones, and 200 and 40 lives
#   soak      the agent beside a runtime whose pods come and go, for ten minutes
#   churn     a hundred pods that come and go for five minutes, beside a kubelet, with and without the agent, and again with
#             all that it can do at once; what is left over on a node beside two hundred pods; the logs of 56 pods that come and
#             go, and 10,000 log files over a limit
#   kills     the leader of two controllers is killed 9 times, the API server and the agent 50 times; what one tenant can make the controller need
#   fleet     1,000 agents beside one API server: what they need of it, pauses, lists of images; a paused node whose API server is away
#             for ten minutes
#   forests   600 random forests of objects, collected by kube-controller-manager and by kubegc
#   release   the files of a release for both architectures, built from a clean checkout
#
# KUBEGC_KUBERNETES names another Kubernetes for real nodes and API servers (`scripts/kubernetes.sh`), KUBEGC_CONTAINERD another
# containerd 2 (`scripts/containerd.sh`), and KUBEGC_CRIO a CRI-O (`scripts/crio.sh`). Tests that need a later Kubernetes or CRI-O
# are in modules named `since_1_36` or `on_crio`. The script names each test that it leaves out.
#
# It uses cargo-nextest if that is installed, else `cargo test`. The tests are the same; nextest is quicker and runs
# each test in its own process. The script does not install it, because building it takes longer than all tests.
set -euo pipefail
cd "$(dirname "$0")/.."

long_parts=tests/long_parts.tsv

say() { printf 'test.sh: %s\n' "$*" >&2; }

# The same random inputs in every run, so that a commit fails only for what it has changed. `random` finds the rest.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

has_nextest() { cargo nextest --version >/dev/null 2>&1; }

# without PATTERN…: runs all tests but those with these texts in their names.
without() {
  if has_nextest; then
    cargo nextest run --locked --no-fail-fast ${1:+-E "not test(/$(any "$@")/)"}
  else
    # shellcheck disable=SC2046
    cargo test --locked --no-fail-fast -- ${1:+$(printf -- '--skip %s ' "$@")}
  fi
}

# only NAME [OPTION…]: runs the tests with this text in their names, but those of `left_out`, which may be all of them.
only() {
  local name=$1
  shift
  grep -rq "${name##*::}" src tests || { say "no test has the name $name" && return 1; }
  if has_nextest; then
    cargo nextest run --locked --no-fail-fast --no-tests pass "$@" -E "test($name)${out:+ and not test(/$(any "${out[@]}")/)}"
  else
    # shellcheck disable=SC2046
    cargo test --locked --no-fail-fast -- ${1:+--include-ignored} "$name" ${out:+$(printf -- '--skip %s ' "${out[@]}")}
  fi
}

# any PATTERN…: prints a regular expression for one of the patterns.
any() { (IFS='|' && printf '%s' "$*"); }

# left_out: sets `out` to texts in the names of the tests that cannot run with the programs at hand, and `missed` to their
# numbers, and names them.
left_out() {
  local minor since
  out=() missed=()
  minor=$(version | cut -d. -f2)
  for since in $(grep -rhoE 'mod since_1_[0-9]+' tests/it | grep -oE 'since.*' | sort -u); do
    [ "${since##*_}" -le "$minor" ] || leave_out "$since" "they need Kubernetes 1.${since##*_}, and this is 1.$minor"
  done
  [ -n "${KUBEGC_CRIO:-}" ] || leave_out on_crio "KUBEGC_CRIO names no CRI-O"
}

# leave_out PATTERN CAUSE: adds a text to `out` and prints the names of its tests.
leave_out() {
  local names
  out+=("$1")
  ! has_nextest || names=$(cargo nextest list --locked -E "test($1)" 2>/dev/null | grep :: || true)
  say "left out, because $2:${names:+$'\n'}${names:- $1}"
  missed+=("$1: ${names:+$(wc -l <<<"$names") }tests left out")
}

# version: prints the version of Kubernetes.
version() { scripts/kubernetes.sh | awk -F '\t' '$1 == "kubernetes" { print $3 }'; }

# versions: prints which programs the tests ran beside, and which modules were left out.
versions() {
  local kubernetes containerd module
  kubernetes=$(version)
  containerd=$(scripts/containerd.sh | while IFS=$'\t' read -r _ dir; do cat "$dir/containerd.version" 2>/dev/null || true; done)
  say "beside Kubernetes $kubernetes, containerd ${containerd//$'\n'/, }${KUBEGC_CRIO:+, CRI-O of $KUBEGC_CRIO}"
  for module in "${missed[@]}"; do say "$module"; done
  overdue
}

# prepare: downloads and builds what the tests need, and the tests at the same time: one waits for the network, the other for
# the processor.
prepare() {
  local building
  say "preparing containerd and Kubernetes; the first run builds Kubernetes, about 5 minutes"
  scripts/setup.sh build
  build_tests &
  building=$!
  scripts/setup.sh
  wait "$building"
  left_out
}

build_tests() {
  if has_nextest; then
    cargo nextest run --locked --no-run
  else
    cargo test --locked --no-run
  fi
}

fast() {
  say "building, then running the 2,050 tests that need no root: about 4 minutes on 2 cores after the build"
  scripts/setup.sh build
  trap 'say "not run: tests on containerd, CRI-O, a real node, Prometheus, Helm and a browser; as root, \`make test\` runs them"' EXIT
  without as_root containerd on_crio on_node promtool prometheus in_browser manifests::chart
}

random() {
  say "random: 30 minutes"
  (unset PROPTEST_RNG_SEED && PROPTEST_CASES=${PROPTEST_CASES:-5000} only properties)
  KUBEGC_CASES=all only suggestions_hold
  KUBEGC_CASES=all only every_node_that_was_made
  KUBEGC_CASES=all only matrix
  KUBEGC_CASES=all only faults::
  KUBEGC_LIVES=${KUBEGC_LIVES:-10000} only controller::tests::lives::lives_of
  KUBEGC_LIVES=${KUBEGC_LIVES:-2000} only service::tests::lives::lives_of
  KUBEGC_CASES=all every_small
}

# every_small: plays the small nodes and clusters and says how many, with the code that decides optimised: that is twenty times as fast.
every_small() {
  local options=(--locked -p kubegc-core --test it --config 'profile.test.package.kubegc-core.opt-level = 1')
  if has_nextest; then
    cargo nextest run "${options[@]}" --success-output final -E 'test(every_small)'
  else
    cargo test "${options[@]}" every_small -- --show-output
  fi
}

soak() {
  say "soak: 10 minutes"
  KUBEGC_SOAK_SECONDS=${KUBEGC_SOAK_SECONDS:-600} only in_a_soak
}

churn() {
  say "churn: 22 minutes"
  KUBEGC_SOUND_PODS=${KUBEGC_SOUND_PODS:-200} only nothing_of_sound_pods
  KUBEGC_LOG_PODS=${KUBEGC_LOG_PODS:-500} only thousands_of_log_files
  only ten_thousand_of_each --run-ignored only
  only beside_a_collecting_kubelet --run-ignored only
  KUBEGC_LOG_WAVES=${KUBEGC_LOG_WAVES:-7} only lines_of_deleted_pods
  KUBEGC_CHURN_SECONDS=${KUBEGC_CHURN_SECONDS:-300} only on_node::churn
  KUBEGC_EVERYTHING=1 KUBEGC_CHURN_SECONDS=${KUBEGC_CHURN_SECONDS:-300} only on_node::churn
}

kills() {
  say "kills: 10 minutes"
  KUBEGC_KILLS=${KUBEGC_KILLS:-9} only each_leader_is_killed --run-ignored only
  only run_needs_few_connections --run-ignored only
  only run_says_that_it_is_throttled --run-ignored only
  KUBEGC_RESTARTS=${KUBEGC_RESTARTS:-50} only killed_again_and_again --run-ignored only
  KUBEGC_SIGKILLS=${KUBEGC_SIGKILLS:-50} only kill::
}

forests() {
  local seed
  say "forests: 12 minutes"
  for seed in ${KUBEGC_SEED:-1 2 3}; do
    KUBEGC_SEED=$seed KUBEGC_FORESTS=${KUBEGC_FORESTS:-200} only upstream_collector --run-ignored all
  done
  KUBEGC_CASES=all only collect_after_each_step
}

fleet() {
  say "fleet: 26 minutes; the thousand agents need Kubernetes 1.30"
  KUBEGC_FLEET_SECONDS=${KUBEGC_FLEET_SECONDS:-600} only a_thousand_agents --run-ignored only --no-capture
  KUBEGC_AWAY_SECONDS=${KUBEGC_AWAY_SECONDS:-600} only a_policy_pauses_a_node
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
  only lintian_finds_no_error --run-ignored only
  only the_go_helper --run-ignored only
}

# part NAME [VERSION]: runs a part of `long`, and notes that it passed: its name, the version of Kubernetes, the day, and its seconds.
part() {
  local begun=$SECONDS version=${2:--} others
  "$1"
  others=$(grep -v "^$1"$'\t'"$version"$'\t' "$long_parts" || true)
  printf '%s\n' "$others" "$1"$'\t'"$version"$'\t'"$(date -u +%F)"$'\t'$((SECONDS - begun)) | grep . | sort >"$long_parts.$$"
  mv "$long_parts.$$" "$long_parts"
}

# overdue: names the parts of `long` that did not pass for two weeks.
overdue() {
  local name last since
  since=$(date -u -d '14 days ago' +%F)
  for name in random soak churn kills fleet forests release; do
    last=$(awk -v part="$name" '$1 == part { print $3 }' "$long_parts" | sort | tail -n 1)
    [[ $last > $since ]] || say "make test-$name passed last on ${last:-no day}"
  done
}

node() { say "the tests on a real node or API server: about 8 minutes on 2 cores" && only on_node; }

# beside_kubernetes: what depends on the version of Kubernetes.
beside_kubernetes() {
  node
  part churn "$(version)"
  part kills "$(version)"
  part forests "$(version)"
}

long() {
  say "the files of a release 30 minutes, random 30, soak 10, fleet 26, churn 22, kills 10, forests 12: about two hours on 2 cores"
  say "with KUBEGC_KUBERNETES, all that needs a Kubernetes runs on 1.20.2 too: about 35 minutes more"
  prepare
  # Not joined by `&&`: Bash then ignores failures in all but the last. The files of a release are built while the checkout is clean.
  part release
  part random
  part soak
  part fleet "$(version)"
  beside_kubernetes
  if [ -n "${KUBEGC_KUBERNETES:-}" ]; then
    (
      unset KUBEGC_KUBERNETES
      prepare
      beside_kubernetes
    )
  else
    say "left out: all tests on another Kubernetes than 1.20.2, because KUBEGC_KUBERNETES names none"
  fi
}

case ${1:-} in
  '')
    say "building, then running about 2,250 tests: about 13 minutes on 2 cores after the build"
    say "they use containerd 1.6, 1.7 and 2.x and real nodes; \`make test-fast\` runs those that need no root"
    prepare
    trap versions EXIT
    without "${out[@]}"
    ;;
  fast | long) "$1" ;;
  node) prepare && node ;;
  random) scripts/setup.sh build && part random ;;
  soak) prepare && part soak ;;
  churn | kills | fleet | forests) prepare && part "$1" "$(version)" ;;
  release) part release ;;
  *) sed -n '2,21s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
