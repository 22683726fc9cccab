#!/usr/bin/env bash
# Checks format, lints, docs, and the licenses and sources of all crates (deny.toml). Warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build
cargo fmt --check
# What ships, and then everything: the simulated node is a feature.
cargo clippy --locked -- -D warnings
cargo clippy --locked --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items --quiet
tools=$PWD/target/tools
if [ ! -x "$tools/bin/cargo-deny" ]; then
  echo "check.sh: installing cargo-deny in target/tools, once; this takes some 5 minutes" >&2
  cargo install --quiet --locked --root "$tools" cargo-deny
fi
"$tools/bin/cargo-deny" --locked check --hide-inclusion-graph licenses bans sources
