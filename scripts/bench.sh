#!/usr/bin/env bash
# Runs the benchmarks. Figures are ratios within one run: machines are noisy.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build
cargo bench --locked --bench plan
cargo bench --locked --bench pods
cargo bench --locked --bench whole
