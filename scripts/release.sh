#!/usr/bin/env bash
# Builds everything that a release consists of, from a clean checkout, in target/release-VERSION.
#
#   scripts/release.sh [--snapshot] [--key FILE]
#
# CHANGELOG.md must have a section `## VERSION` with that of Cargo.toml. --snapshot builds between two releases: it does
# not check that, and the version gets the suffix of the commit. The other architecture is built if its cross compiler for C
# is installed (scripts/binary.sh says how); otherwise the release does not have it, and the script says so.
#
# FILE is a private key of OpenSSH, which signs the checksums. Its public key must be in packaging/release-signers, except
# with --snapshot. Without --key the release is not signed: scripts/sums.sh can sign it later, on another machine too.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

name=$version key=''
while [ $# -gt 0 ]; do
  case $1 in
    --snapshot) name=$version~${revision:0:12}; shift ;;
    --key) key=$2; shift 2 ;;
    *) die "unknown option $1" ;;
  esac
done
[ -n "$revision" ] || die "no git repository: a release names the commit that it was built from"
changed=$(git status --porcelain)
[ -z "$changed" ] || die "the tree is not clean, so the release would not be that of the commit; commit or remove:
$changed"
if [ "$name" = "$version" ]; then
  grep -qE "^## $version( |\$)" CHANGELOG.md || die "CHANGELOG.md has no section \"## $version\": rename \"## Unreleased\""
fi

# signers: prints the keys that sign releases, with their fingerprints.
signers() { grep -v '^#' packaging/release-signers | grep -oE '[a-z]+-[^ ]+ AAAA[^ ]+' | ssh-keygen -l -f - 2>/dev/null; }

# The build takes long, so a wrong key fails before it.
if [ -n "$key" ]; then
  fingerprint=$(ssh-keygen -l -f "$key" 2>&1) || die "cannot read the key \"$key\": $fingerprint"
  [ "$name" != "$version" ] || [[ $(signers) == *" $(cut -d ' ' -f 2 <<<"$fingerprint") "* ]] ||
    die "packaging/release-signers does not have the key \"$key\", so users could not verify the signature"
fi

out=$PWD/target/release-$name
rm -rf "$out"
mkdir -p "$out"
own=$(arch_of "$(uname -m)") other=arm64
[ "$own" = amd64 ] || other=amd64
runs_here=$(scripts/binary.sh)

# archive ARCH BINARY: the binary with everything that a hand installation needs.
archive() {
  local top=kubegc-$name-linux-$1 work
  work=$(mktemp -d)
  mkdir -p "$work/$top/tree/usr/bin"
  cp "$2" "$work/$top/tree/usr/bin/kubegc"
  scripts/tree.sh "$runs_here" "$work/$top/tree"
  cp -r LICENSE README.md CHANGELOG.md config/default.toml packaging "$work/$top/"
  pack -C "$work" "$top" | gzip -n -9 >"$out/$top.tar.gz"
  rm -r "$work"
}

built=()
for arch in "$own" "$other"; do
  if ! binary=$(scripts/binary.sh --arch "$arch"); then
    [ "$arch" = "$other" ] || exit 1
    printf 'release.sh: no binary for %s, so this release does not have it\n' "$arch" >&2
    continue
  fi
  built+=("$arch")
  archive "$arch" "$binary"
  # The packages, each from the binary of the architecture.
  scripts/deb.sh --arch "$arch" --version "$name-1" "$out/kubegc_$name-1_$arch.deb" >/dev/null
  scripts/rpm.sh --arch "$arch" --version "$name" "$out/kubegc-$name-1.$(machine_of "$arch").rpm" >/dev/null
  scripts/image.sh --arch "$arch" --name "ghcr.io/kubegc/kubegc:${name/\~/-}" "$out/kubegc-$name-image-$arch.tar" >/dev/null
done
# In the order of the names, so that the bytes do not depend on the machine.
scripts/index.sh "$out/kubegc-$name-image.tar" "$out/kubegc-$name-image-"*.tar >/dev/null
scripts/chart.sh --version "$name" "$out" >/dev/null
# One bill of materials for all of them.
scripts/sbom.sh >"$out/kubegc-$name.cdx.json"
# The provenance lists all files before it, and the checksums have it too.
scripts/provenance.sh --version "$name" "$out" "${built[@]}" >/dev/null
scripts/sums.sh ${key:+--key "$key"} "$out"

printf 'kubegc %s, commit %s, in %s:\n' "$name" "$revision" "$out"
(cd "$out" && stat -c '%12s  %n' -- *)
[ -n "$key" ] || printf 'release.sh: the release is not signed, because there is no --key\n' >&2
