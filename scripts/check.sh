#!/usr/bin/env bash
# Format, lints and docs, each with warnings as errors.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build
cargo fmt --check
cargo clippy --locked --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items --quiet
