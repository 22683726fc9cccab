#!/usr/bin/env bash
# Runs the benchmarks. The figures are ratios within one run, because absolute times vary between runs.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cargo bench --locked --bench plan
cargo bench --locked --bench pods
cargo bench --locked --bench whole
cargo bench --locked --bench scrape
cargo bench --locked --bench removal
# The controller, on real API servers; as root. It is the binary of a release, as kube-controller-manager beside it is.
KUBEGC_BINARY=$(scripts/binary.sh)
export KUBEGC_BINARY
cargo bench --locked --bench controller
