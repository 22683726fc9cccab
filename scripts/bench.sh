#!/usr/bin/env bash
# Runs the benchmarks. The figures are ratios within one run, because absolute times vary between runs. docs/performance.md
# has those of the last one.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
# Whole programs are those of a release, as what runs beside them is.
KUBEGC_BINARY=$(scripts/binary.sh)
export KUBEGC_BINARY
for bench in plan pods whole scrape removal logs lab stores controller; do
  cargo bench --locked --bench "$bench"
done
