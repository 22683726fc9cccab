#!/usr/bin/env bash
# Mutation testing: changes the code in one place at a time and runs the tests, which must fail. Prints the mutants that
# no test detects; all results are in target/mutants/ROOM/mutants.out. Takes from minutes to hours, so `make test` does
# not run it.
#
#   scripts/mutants.sh ROOM [OPTION…]    changes a room and runs the tests beside its code; for a room of src/core all tests of that crate
#
# OPTION is an option of cargo-mutants, such as --list, --file 'src/observe/pods/**', or --sharding round-robin
# --shard 0/4 for every fourth mutant.
#
# A room builds without the rooms that it may not use, so a mutant takes seconds instead of minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'mutants.sh: %s\n' "$*" >&2; exit 1; }

[ $# -gt 0 ] || die "name a room, such as plan"
room=$1 crate=target/mutants/$1
shift
[ -e "src/$room.rs" ] || [ -e "src/core/$room.rs" ] || die "$room: no such room"
scripts/setup.sh build
tools=$PWD/target/tools
[ -x "$tools/bin/cargo-mutants" ] || cargo install --quiet --locked --root "$tools" cargo-mutants
PATH=$tools/bin:$PATH
# Fewer random cases than in the tests, because they run for each mutant.
export PROPTEST_CASES=${PROPTEST_CASES:-64}
# The dependencies are those of kubegc, which are compiled already.
export CARGO_TARGET_DIR=$PWD/target

if [ -e "src/core/$room.rs" ]; then
  mkdir -p "$crate"
  exec cargo mutants --package kubegc-core --file "src/core/$room.rs" --file "src/core/$room/**" --output "$crate" --timeout 60 "$@"
fi

# use ROOM…: adds rooms to `rooms`, with all that they may use by the table in ARCHITECTURE.md and is not in src/core.
rooms=()
use() {
  local room
  for room in "$@"; do
    [[ -e src/core/$room.rs || " ${rooms[*]} " == *" $room "* ]] || {
      rooms+=("$room")
      use $(sed -n "s/^| \`$room\` |.*|\(.*\)|\$/\1/p" ARCHITECTURE.md | grep -o '[a-z_]*')
    }
  done
}

use "$room"
doubles=
# The test doubles use the simulated node and the clients.
if grep -rqE 'crate::(sim|testing)' "src/$room" "src/$room.rs"; then
  use sim kubernetes
  doubles=testing
fi

rm -rf "$crate/src" "$crate/tests"
mkdir -p "$crate/src" "$crate/tests"
ln -sfn "$PWD"/{CHANGELOG.md,config,docs,packaging,proto} "$crate"
ln -s "$PWD/tests/data" "$crate/tests"
ln -s "$PWD/src/core" "$crate/src"
for used in "${rooms[@]}" $doubles; do
  cp -r "src/$used.rs" "src/$used" "$crate/src"
  # The tests of other rooms do not run, so they need not build.
  [ "$used" = "$room" ] || find "$crate/src/$used.rs" "$crate/src/$used" -name '*.rs' \
    -exec sed -i -z 's/#\[cfg(test)\]\nmod tests/#[cfg(any())]\nmod tests/g' {} +
done
{
  grep '^pub use kubegc_core' src/lib.rs
  printf 'pub mod %s;\n' "${rooms[@]}"
  [ -z "$doubles" ] || printf '#[cfg(test)]\nmod testing;\n'
} >"$crate/src/lib.rs"
# The same dependencies and profiles, without lints, benchmarks and debug information of the room itself.
sed -e '/^default-run/d; /^\[\[bench\]\]/,/^$/d; /^\[lints\]/,$d' Cargo.toml >"$crate/Cargo.toml"
printf '[profile.dev.package.kubegc]\ndebug = false\n' >>"$crate/Cargo.toml"
cp Cargo.lock "$crate"

cd "$crate"
# The crate is a copy, so it is changed in place.
exec cargo mutants --in-place --package kubegc --exclude src/cri/generated.rs --file "src/$room.rs" --file "src/$room/**" \
  --cargo-arg=--lib --cargo-arg=--no-default-features --timeout 60 "$@"
