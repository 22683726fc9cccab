#!/usr/bin/env bash
# Counts the production code: all of src without tests (`tests*`, `testing`, `#[cfg(test)]`), without generated code, and
# without the simulated node, the demo and faults of the store, which do not ship (the feature `sim`).
#
#   scripts/count.sh        prints a table, lines, files and room, and the numbers of settings, public types and crates
#   scripts/count.sh wings  prints the lines of each wing of ARCHITECTURE.md; a test compares them with the limits there
set -euo pipefail
cd "$(dirname "$0")/.."

# files: the production files.
files() {
  find src -name '*.rs' |
    grep -vE '(^|/)(tests?(/|\.rs$)|tests_|testing(/|\.rs$)|generated\.rs$|sim(/|\.rs$)|cli/verbs/demo(/|\.rs$)|record/faults\.rs$)'
}

# code: the lines outside of items with #[cfg(test)], each after the path of its file below src.
code() {
  files | xargs awk '
    FNR == 1 { test = body = 0; path = substr(FILENAME, 5); sub(/^core\//, "", path) }
    /^#\[cfg\(test\)\]/ { test = 1; next }
    test && /^(#|\/\/)/ { next }
    test && /;$/ && !body { test = 0; next }
    test { body = 1; if (/^}/) test = body = 0; next }
    { print path, $0 }'
}

# counted: the path and the lines of each file.
counted() {
  code | awk '{ lines[$1]++ } END { for (path in lines) print path, lines[path] }'
}

# rooms: the lines and files of each room, and of all.
rooms() {
  counted | sed -E 's,(\.rs|/[^ ]*) , ,' | awk '
    { lines[$1] += $2; files[$1]++; all += $2; count++ }
    END {
      for (room in lines) printf "%7d %5d  %s\n", lines[room], files[room], room | "sort -rn"
      close("sort -rn")
      printf "%7d %5d  all\n", all, count
    }'
}

# wings: the lines of each wing, by the paths in the table of ARCHITECTURE.md. The first wing there has the files that no other one has.
wings() {
  { sed -n '/^| wing |/,/^$/p' ARCHITECTURE.md | tail -n +3; counted; } | awk '
    /^\|/ {
      split($0, cells, " *[|] *")
      if (!first) first = cells[2]
      count = split(cells[3], words, "`")
      for (i = 2; i <= count; i += 2) wing[words[i]] = cells[2]
    }
    /^[^|]/ {
      of = first
      for (path in wing) if (index($1, path ".rs") == 1 || index($1, path "/") == 1) of = wing[path]
      lines[of] += $2
    }
    END { for (name in lines) printf "%7d  %s\n", lines[name], name | "sort -rn" }'
}

# settings: the keys of the configuration.
settings() {
  grep -c '^### `' docs/configuration.md
}

# public_types: the types that are declared `pub`.
public_types() {
  code | grep -cE '^[^ ]+ +pub (struct|enum|trait|type) '
}

# crates: those of the program with its default features, each version once.
crates() {
  cargo tree --locked --edges normal --prefix none --format '{p}' | sed 's/ (.*//' | sort -u | grep -vc '^kubegc'
}

if [ "${1:-}" = wings ]; then
  wings
  exit
fi
rooms
printf '%7d %5s  %s\n' "$(settings)" '' 'settings' "$(public_types)" '' 'public types' "$(crates)" '' 'crates'
