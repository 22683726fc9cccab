#!/usr/bin/env bash
# Checks format, lints and docs. Warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build
cargo fmt --check
cargo clippy --locked --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items --quiet
