#!/usr/bin/env bash
# Feeds random input, guided by coverage, to all that reads what comes from outside (cargo-fuzz, a nightly compiler).
#
#   scripts/fuzz.sh [SECONDS [TARGET…]]     runs each target for so long, by default 60 s, two at once
#
# It ends with an error if an input causes a panic, and prints where the input is. What it learned stays in target/fuzz, and
# the next run begins with it. An input that was found becomes a test, not a file here.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
tools=$PWD/target/tools
if ! [[ -x $tools/bin/cargo-fuzz ]]; then
  echo "fuzz.sh: installing cargo-fuzz in target/tools, once" >&2
  cargo install --quiet --root "$tools" cargo-fuzz --version =0.13.2 --locked
fi
export PATH=$tools/bin:$PATH

# The inputs to begin with, by target.
seeds() {
  case $1 in
    kubeconfig) ls tests/data/cases/*kubeconfig*.yaml tests/data/cases/t4/*.yaml tests/data/cases/fake.kubeconfig ;;
    kubelet_config) ls tests/data/cases/N{3,10}-*.yaml tests/data/cases/N2-eks/config.json ;;
    crictl_config) ls config/default.toml ;;
    snapshot) ls tests/data/cases/{N6,X2}*.json tests/data/snapshots/*.json ;;
    cluster_snapshot) ls tests/data/cases/{C1-tenant,C5b,C5c}*.json ;;
    *) ;;
  esac
}

run() {
  local target=$1 corpus=target/fuzz/corpus/$1
  mkdir -p "$corpus"
  seeds "$target" | xargs -r cp -t "$corpus"
  "target/fuzz/build/$triple/release/$target" "$corpus" -max_total_time="$seconds" -rss_limit_mb=4096 -max_len=20000 \
    -timeout=20 -artifact_prefix="target/fuzz/$target-" -print_final_stats=1 >"target/fuzz/$target.log" 2>&1 ||
    { echo "fuzz.sh: $target failed, see target/fuzz/$target.log" >&2 && return 1; }
  printf '%s: %s inputs\n' "$target" "$(sed -n 's/stat::number_of_executed_units: *//p' "target/fuzz/$target.log")"
}
export -f run seeds
triple=$(rustc +nightly -vV | sed -n 's/^host: //p')
export seconds triple

targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || mapfile -t targets < <(sed -n 's/^name = "\([a-z_]*\)"$/\1/p' fuzz/Cargo.toml)
# Without a sanitizer: there is no unsafe code, so a panic is what an input can cause.
cargo +nightly fuzz build --sanitizer none --target-dir target/fuzz/build
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -euo pipefail -c 'run {}'
