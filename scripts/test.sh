#!/usr/bin/env bash
# Runs all tests. With `fast` it runs those that need neither root nor containerd, with `node` those on a real node. With
# `release` it builds the files of a release from a clean checkout, and runs the tests of these files, which are no part of
# the others: the builds take some 20 minutes.
#
# It uses cargo-nextest if that is installed, else `cargo test`. The tests are the same; nextest is quicker and runs
# each test in its own process. The script does not install it, because building it takes longer than all tests.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'test.sh: %s\n' "$*" >&2; }

case "${1:-}" in
  fast)
    say "building, then running the 1,200 tests that need no root: about 4 minutes on 2 cores after the build"
    scripts/setup.sh build
    nextest=(-E 'not test(/as_root|containerd|on_node|promtool|prometheus|in_browser|manifests::chart/)')
    plain=(-- --skip as_root --skip containerd --skip on_node --skip promtool --skip prometheus --skip in_browser --skip manifests::chart)
    ;;
  node)
    say "building, then running the 60 tests on a real node or API server: 10 to 20 minutes on 2 cores after the build"
    nextest=(-E 'test(on_node)') plain=(-- on_node)
    ;;
  release)
    say "building the files of a release, then running their tests: about 25 minutes on 2 cores"
    nextest=(--run-ignored only -E 'test(of_a_release)') plain=(-- --ignored of_a_release)
    ;;
  *)
    say "building, then running about 1,470 tests: about 20 minutes on 2 cores after the build"
    say "they use containerd 1.6, 1.7 and 2.x and real nodes; \`make test-fast\` runs those that need no root"
    nextest=() plain=()
    ;;
esac

if [ "${1:-}" != fast ]; then
  say "preparing containerd and Kubernetes; the first run builds Kubernetes, about 6 minutes"
  scripts/setup.sh "$@"
fi
if [ "${1:-}" = release ]; then
  say "building the files of the release"
  files=$(scripts/release.sh --snapshot)
  printf '%s\n' "$files" >&2
  KUBEGC_RELEASE=$(sed -nE '1s/.*, in (.+):$/\1/p' <<<"$files")
  export KUBEGC_RELEASE
elif [ "${1:-}" != fast ]; then
  say "building the container image"
  # Built here, so that no test waits for the compiler. The tests build it again if the source changed.
  scripts/image.sh --profile dev target/image/kubegc-dev.tar >/dev/null
fi

say "building the tests"
if cargo nextest --version >/dev/null 2>&1; then
  exec cargo nextest run --locked --no-fail-fast "${nextest[@]}"
fi
exec cargo test --locked --no-fail-fast "${plain[@]}"
