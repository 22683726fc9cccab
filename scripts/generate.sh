#!/usr/bin/env bash
# Makes config/default.toml and docs/configuration.md again from the declarations of the settings.
set -euo pipefail
cd "$(dirname "$0")/.."
KUBEGC_GENERATE=1 cargo test --locked --lib config::tests::generated
