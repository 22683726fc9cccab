#!/usr/bin/env bash
# Builds kubegc and runs the demo: a busy node in memory, its plan, the collection, the node after. Needs no root.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build
exec cargo run --locked --quiet -- demo "$@"
