#!/usr/bin/env bash
# Runs the benchmarks. The figures are ratios within one run, because absolute times vary between runs. docs/performance.md
# has those of the last one.
#
#   scripts/bench.sh              runs all of them
#   scripts/bench.sh NAME [PART]  runs one, or a part of it
#
# At the end it prints the rows again: first those that are worse than in docs/performance.md by more than a tenth, then those
# that miss their aim.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
# Whole programs are those of a release, as what runs beside them is.
KUBEGC_BINARY=${KUBEGC_BINARY:-$(scripts/binary.sh)}
export KUBEGC_BINARY
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
benches=(plan pods whole scrape removal logs lab stores controller)
[ $# -eq 0 ] || benches=("$1")
for bench in "${benches[@]}"; do
  cargo bench --locked --bench "$bench" -- "${@:2}" | tee >(grep '^| ' >>"$rows")
done

# The columns: what, kubegc, peer, figure, aim, outcome. The page has the first five.
awk -F ' *[|] *' '
  FNR == NR { before[$2] = $5; next }
  { kind = ($2 in before && $5 > before[$2] * 1.1) ? "worse" : $7; lines[kind] = lines[kind] $0 ($2 in before ? " before: " before[$2] : "") "\n" }
  END { printf "\nWorse by more than a tenth:\n%s\nMissed:\n%s\nMet:\n%s", lines["worse"], lines["missed"], lines["met"] }
' docs/performance.md "$rows"
