#!/usr/bin/env bash
# Mutation testing: changes the code in one place at a time and runs the tests, which must fail. Prints the mutants that
# no test detects; all results are in target/mutants/*/mutants.out. Takes from half an hour to a day, so `make test`
# does not run it.
#
#   scripts/mutants.sh plan [OPTION…]        only the modules model and plan: a few seconds for each mutant;
#                                            with --cargo-arg=--lib, only the tests beside the code run
#   scripts/mutants.sh FILE… [-- OPTION…]    other files, as src/execute/images.rs: a minute or more for each mutant
#
# OPTION is an option of cargo-mutants, such as --shard 0/4 or --list.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'mutants.sh: %s\n' "$*" >&2; exit 1; }

[ $# -gt 0 ] || die "name what to change: plan, or files beneath src/"
scripts/setup.sh build
tools=$PWD/target/tools
[ -x "$tools/bin/cargo-mutants" ] || cargo install --quiet --locked --root "$tools" cargo-mutants
PATH=$tools/bin:$PATH
# Fewer random cases than in the tests, because they run for each mutant.
export PROPTEST_CASES=${PROPTEST_CASES:-64}

# pure_crate DIR: writes a crate with only model and plan. They use no other module, so it builds in seconds.
pure_crate() {
  local crate=$1
  rm -rf "$crate/src" "$crate/tests"
  mkdir -p "$crate/src" "$crate/tests/it"
  cp -r src/model src/model.rs src/plan src/plan.rs "$crate/src"
  printf 'pub mod model;\npub mod plan;\n' >"$crate/src/lib.rs"
  cp -r tests/data "$crate/tests"
  cp -r tests/it/properties tests/it/properties.rs tests/it/vectors tests/it/vectors.rs "$crate/tests/it"
  # This test executes plans, so it needs the other modules.
  rm "$crate/tests/it/properties/rechecks.rs"
  sed -i '/^mod rechecks;/d' "$crate/tests/it/properties.rs"
  printf '#![allow(warnings)]\nmod properties;\nmod vectors;\n' >"$crate/tests/it/main.rs"
  {
    printf '[package]\nname = "kubegc"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n'
    grep -E '^(jiff|schemars|serde|serde_json|strum) = ' Cargo.toml
    printf '\n[dev-dependencies]\n'
    grep -E '^(insta|proptest) = ' Cargo.toml
  } >"$crate/Cargo.toml"
  cp Cargo.lock "$crate/Cargo.lock"
}

if [ "$1" = plan ]; then
  shift
  crate=target/mutants/plan
  pure_crate "$crate"
  cd "$crate"
  # The crate is a copy, so it is changed in place and builds its dependencies once.
  exec cargo mutants --in-place --file 'src/plan/**' --file 'src/model/**' --exclude '**/tests.rs' --timeout 60 "$@"
fi

files=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  [ -e "$1" ] || die "$1: no such file"
  files+=(--file "$1")
  shift
done
[ $# -eq 0 ] || shift
mkdir -p target/mutants/files
exec cargo mutants "${files[@]}" --test-tool nextest --timeout 300 --output target/mutants/files "$@" -- --lib
