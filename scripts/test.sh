#!/usr/bin/env bash
# Runs all tests. With `fast` it runs those that need neither root nor containerd, with `node` those on a real node.
#
# It uses cargo-nextest if that is installed, else `cargo test`. The tests are the same; nextest is quicker and runs
# each test in its own process. The script does not install it, because building it takes longer than all tests.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = fast ]; then
  scripts/setup.sh build
  nextest=(-E 'not test(/as_root|containerd|on_node/)') plain=(-- --skip as_root --skip containerd --skip on_node)
else
  scripts/setup.sh
  # Built here, so that no test waits for the compiler. The tests build it again if the source changed.
  scripts/image.sh --profile dev target/image/kubegc-dev.tar >/dev/null
  nextest=() plain=()
fi
if [ "${1:-}" = node ]; then nextest=(-E 'test(on_node)') plain=(-- on_node); fi

if cargo nextest --version >/dev/null 2>&1; then
  exec cargo nextest run --locked --no-fail-fast "${nextest[@]}"
fi
exec cargo test --locked --no-fail-fast "${plain[@]}"
