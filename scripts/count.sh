#!/usr/bin/env bash
# Counts the production code: all of src without tests (`tests*`, `testing`, `#[cfg(test)]`), without generated code, and
# without the simulated node, the demo and faults of the store, which do not ship (the feature `sim`).
#
#   scripts/count.sh        prints a table, lines, files and room, and the numbers of settings, public types and crates
set -euo pipefail
cd "$(dirname "$0")/.."

# files: the production files.
files() {
  git ls-files src | grep '\.rs$' |
    grep -vE '(^|/)(tests?(/|\.rs$)|tests_|testing(/|\.rs$)|generated\.rs$|sim(/|\.rs$)|cli/verbs/demo(/|\.rs$)|record/faults\.rs$)'
}

# code FILE: the lines outside of items with #[cfg(test)].
code() {
  awk '
    /^#\[cfg\(test\)\]/ { test = 1; next }
    test && /^(#|\/\/)/ { next }
    test && /;$/ && !body { test = 0; next }
    test { body = 1; if (/^}/) test = body = 0; next }
    { print }' "$1"
}

# rooms: the lines and files of each room, and of all.
rooms() {
  files | while read -r file; do
    room=${file#src/}
    room=${room%%/*}
    printf '%s %s\n' "${room%.rs}" "$(code "$file" | wc -l)"
  done | awk '
    { lines[$1] += $2; files[$1]++; all += $2; count++ }
    END {
      for (room in lines) printf "%7d %5d  %s\n", lines[room], files[room], room | "sort -rn"
      close("sort -rn")
      printf "%7d %5d  all\n", all, count
    }'
}

# settings: the keys of the configuration.
settings() {
  grep -c '^### `' docs/configuration.md
}

# public_types: the types that are declared `pub`.
public_types() {
  files | while read -r file; do code "$file"; done | grep -cE '^ *pub (struct|enum|trait|type) '
}

# crates: those of the program with its default features, each version once.
crates() {
  cargo tree --locked --edges normal --prefix none --format '{p}' | sed 's/ (.*//' | sort -u | grep -vc '^kubegc '
}

rooms
printf '%7d %5s  %s\n' "$(settings)" '' 'settings' "$(public_types)" '' 'public types' "$(crates)" '' 'crates'
