#!/usr/bin/env bash
# Writes the provenance of a release: an in-toto statement with the SLSA predicate, which lists the files with their
# checksums, and what they were built from. It has no signature of its own: scripts/sums.sh signs its checksum.
#
#   scripts/provenance.sh [--version VERSION] DIR [ARCH…]
#
# The files are those in DIR. The output is DIR/kubegc-VERSION.intoto.json, whose path it prints. VERSION is that of the
# release (default: that of kubegc), and each ARCH an architecture in it (default: that of this machine).
#
# The statement has no time and no identifier of the build (`metadata`), because two builds of a commit with the same
# compiler must give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

if [ "${1:-}" = --version ]; then
  version=$2
  shift 2
fi
[ -d "${1:-}" ] || die "usage: scripts/provenance.sh [--version VERSION] DIR [ARCH…], and DIR must exist"
[[ $revision =~ ^[0-9a-f]{40}$ ]] || die "the provenance needs a commit without changes, and this is \"$revision\""
dir=$1
shift
[ $# -gt 0 ] || set -- "$(arch_of "$(uname -m)")"

project=https://github.com/kubegc/kubegc
page=$project/blob/main/docs/verify.md
file=$dir/kubegc-$version.intoto.json
work=$(mktemp)
trap 'rm -f "$work"' EXIT

# subjects: each file with its checksum, except those that are written after the others.
subjects() {
  local path name digest separator=''
  for path in "$dir"/*; do
    name=${path##*/}
    case $name in
      SHA256SUMS | SHA256SUMS.sig | "${file##*/}") continue ;;
      *[!A-Za-z0-9._~+-]*) die "\"$name\" is not the name of a file of a release" ;;
    esac
    digest=$(sha256sum <"$path" | cut -d ' ' -f 1)
    printf '%s{"name":"%s","digest":{"sha256":"%s"}}' "$separator" "$name" "$digest"
    separator=$',\n'
  done
}

# compiler ARCH: the Rust compiler that scripts/binary.sh uses. The first line of `rustc -vV` distinguishes a build of the
# Rust project from one of Debian. Debian's may not have the commit that it was built from.
compiler() {
  local text commit
  text=$(scripts/binary.sh --arch "$1" --compiler)
  value() { sed -n "s/^$1: //p" <<<"$text"; }
  commit=$(value commit-hash)
  printf '{"name":"rustc for %s","uri":"git+https://github.com/rust-lang/rust@%s"' "$1" "$(value release)"
  if [[ $commit =~ ^[0-9a-f]{40}$ ]]; then printf ',"digest":{"gitCommit":"%s"}' "$commit"; fi
  printf ',"annotations":{"version":"%s","host":"%s","llvm":"%s"}}' \
    "$(head -n 1 <<<"$text")" "$(value host)" "$(value 'LLVM version')"
}

lock=$(sha256sum <Cargo.lock | cut -d ' ' -f 1)
{
  printf '{"_type":"https://in-toto.io/Statement/v1","subject":[\n'
  subjects
  printf '\n],"predicateType":"https://slsa.dev/provenance/v1","predicate":{"buildDefinition":{'
  printf '"buildType":"%s#build-type-v1","externalParameters":{"version":"%s","revision":"%s"},"resolvedDependencies":[\n' \
    "$page" "$version" "$revision"
  printf '{"name":"kubegc","uri":"git+%s@%s","digest":{"gitCommit":"%s"}},\n' $project "$revision" "$revision"
  printf '{"name":"Cargo.lock","uri":"git+%s@%s#Cargo.lock","digest":{"sha256":"%s"}}' $project "$revision" "$lock"
  for arch; do
    printf ',\n'
    compiler "$arch"
  done
  printf '\n]},"runDetails":{"builder":{"id":"%s#local-build"}}}}\n' "$page"
} >"$work"
install -m 0644 "$work" "$file"
printf '%s\n' "$file"
