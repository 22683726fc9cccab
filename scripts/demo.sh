#!/usr/bin/env bash
# Builds kubegc and runs the demo: a simulated node in memory, its plan, the collection, the node afterward. Needs no
# root.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build
exec cargo run --profile demo --locked --quiet --no-default-features --features sim -- demo "$@"
