#!/usr/bin/env bash
# Writes the software bill of materials to standard output, in the format CycloneDX 1.5 (JSON): each crate that the binary
# contains, with its version, license and checksum, from cargo and Cargo.lock.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

# The crates of the binary for both architectures: NAME VERSION LICENSE, without those of tests and builds.
crates() {
  for machine in x86_64 aarch64; do
    cargo tree --locked --edges normal,no-proc-macro --prefix none --target "$machine-unknown-linux-gnu" --format '{p}|{l}'
  done | sed -nE 's/^([^ ]+) v([^ |]+)[^|]*\|(.*)$/\1\t\2\t\3/p' | sort -u
}

# The checksums of all crates: NAME VERSION SHA256.
checksums() {
  awk -F '"' -v OFS='\t' '/^name = /{n=$2} /^version = /{v=$2} /^checksum = /{print n, v, $2}' Cargo.lock
}

awk -F '\t' -v version="$version" -v time="$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" '
  function q(text) { gsub(/["\\]/, "\\\\&", text); return "\"" text "\"" }
  function purl(name, version) { return "pkg:cargo/" name "@" version }
  NR == FNR { sum[$1, $2] = $3; next }
  $1 == "kubegc" || $1 == "kubegc-core" { next }
  {
    license = $3
    gsub("/", " OR ", license) # the old form of "or"
    line = "    {\"type\":\"library\",\"bom-ref\":" q(purl($1, $2)) ",\"name\":" q($1) ",\"version\":" q($2) ",\"purl\":" q(purl($1, $2))
    if (license != "") line = line ",\"licenses\":[{\"expression\":" q(license) "}]"
    if (($1, $2) in sum) line = line ",\"hashes\":[{\"alg\":\"SHA-256\",\"content\":" q(sum[$1, $2]) "}]"
    lines[++count] = line "}"
  }
  END {
    print "{\n  \"bomFormat\":\"CycloneDX\",\n  \"specVersion\":\"1.5\",\n  \"version\":1,"
    print "  \"metadata\":{\"timestamp\":" q(time) ",\"component\":{\"type\":\"application\",\"bom-ref\":" q(purl("kubegc", version)) ",\"name\":\"kubegc\",\"version\":" q(version) ",\"licenses\":[{\"expression\":\"Apache-2.0\"}]}},"
    print "  \"components\":["
    for (i = 1; i <= count; i++) print lines[i] (i < count ? "," : "")
    print "  ]\n}"
  }
' <(checksums) <(crates)
