#!/usr/bin/env bash
# Writes the generated files again: config/default.toml and docs/configuration.md from the declarations of the settings,
# src/cri/generated.rs from proto, the facts of docs/rules.md, docs/metrics.md from the definitions of the metrics,
# tests/data/screens.md from the output, and the definitions of the resources of kubegc from src/core/fleet.
set -euo pipefail
cd "$(dirname "$0")/.."
export KUBEGC_GENERATE=1
cargo test --locked --lib config::tests::generated
cargo test --locked --lib rules::tests::the_page_has_every_fact
cargo test --locked --test it generated::
cargo test --locked --test it monitoring::page::the_page
cargo test --locked --test it terminal::the_recorded_screens_are_current
