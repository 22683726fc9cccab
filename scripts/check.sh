#!/usr/bin/env bash
# Checks format, lints, docs, and the licenses, sources and advisories of all crates (deny.toml). Warnings are errors.
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
# Advisories need the download of their database. Where it fails, that is no fault of this tree.
if ! found=$("$tools/bin/cargo-deny" --locked check --hide-inclusion-graph advisories 2>&1); then
  case $found in
    *'failed to fetch advisory database'*) echo "check.sh: advisories not checked: their database cannot be downloaded" >&2 ;;
    *) printf '%s\n' "$found" >&2; exit 1 ;;
  esac
fi
