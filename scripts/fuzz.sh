#!/usr/bin/env bash
# Feeds random input, guided by coverage, to all that reads what comes from outside (cargo-fuzz).
#
#   scripts/fuzz.sh [SECONDS [READER…]]     runs each reader of fuzz/readers for so long, by default 60 s, two at once
#   scripts/fuzz.sh corpus [READER…]        writes few inputs that reach the same code to tests/data/corpus
#
# It ends with an error if an input causes a panic, and prints where the input is. What it learned stays in target/fuzz, and
# the next run begins with it and with tests/data/corpus. An input that was found becomes a test.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-60}
shift || true
tools=$PWD/target/tools
if ! [[ -x $tools/bin/cargo-fuzz ]]; then
  echo "fuzz.sh: installing cargo-fuzz in target/tools, once" >&2
  cargo install --quiet --root "$tools" cargo-fuzz --version =0.13.2 --locked
fi
export PATH=$tools/bin:$PATH

# The inputs to begin with, by reader.
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

# begin READER: its directory, with the seeds and what the repository has.
begin() {
  mkdir -p "target/fuzz/corpus/$1"
  seeds "$1" | xargs -r cp -t "target/fuzz/corpus/$1"
  ! [[ -f tests/data/corpus/$1.tar.gz ]] || tar -xzf "tests/data/corpus/$1.tar.gz" -C "target/fuzz/corpus/$1"
}

run() {
  begin "$1"
  KUBEGC_READER=$1 "$program" "target/fuzz/corpus/$1" -max_total_time="$what" -rss_limit_mb=4096 -max_len=20000 \
    -timeout=20 -artifact_prefix="target/fuzz/$1-" -print_final_stats=1 >"target/fuzz/$1.log" 2>&1 ||
    { echo "fuzz.sh: $1 failed, see target/fuzz/$1.log" >&2 && return 1; }
  printf '%s: %s inputs\n' "$1" "$(sed -n 's/stat::number_of_executed_units: *//p' "target/fuzz/$1.log")"
}

corpus() {
  begin "$1"
  rm -rf "target/fuzz/merged/$1"
  mkdir -p "target/fuzz/merged/$1" tests/data/corpus
  KUBEGC_READER=$1 "$program" -set_cover_merge=1 -use_counters=0 -max_len=20000 "target/fuzz/merged/$1" "target/fuzz/corpus/$1" \
    >"target/fuzz/$1.log" 2>&1
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "target/fuzz/merged/$1" -c . |
    gzip -n9 >"tests/data/corpus/$1.tar.gz"
}
export -f run corpus begin seeds

# Without a sanitizer, which needs a nightly compiler: there is no unsafe code, so a panic is what an input can cause.
cargo fuzz build --sanitizer none --target-dir target/fuzz/build
program=target/fuzz/build/$(rustc -vV | sed -n 's/^host: //p')/release/reader
export what program

readers=("$@")
[[ ${#readers[@]} -gt 0 ]] || mapfile -t readers < <(sed -n 's/^    ("\([a-z_]*\)", .*/\1/p' fuzz/readers/lib.rs)
[[ $what = corpus ]] && each=corpus || each=run
printf '%s\n' "${readers[@]}" | xargs -P 2 -I{} bash -euo pipefail -c "$each {}"
