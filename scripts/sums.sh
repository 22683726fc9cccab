#!/usr/bin/env bash
# Writes the checksums of all files of a release to SHA256SUMS, and signs them if it gets a key.
#
#   scripts/sums.sh [--key FILE] DIR
#
# The files are those in DIR. FILE is a private key of OpenSSH, such as one of the type ed25519. The signature is
# DIR/SHA256SUMS.sig; docs/verify.md says how to verify it.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

key=''
if [ "${1:-}" = --key ]; then
  key=$2
  shift 2
fi
[ -d "${1:-}" ] || die "usage: scripts/sums.sh [--key FILE] DIR, and DIR must exist"
rm -f "$1"/SHA256SUMS{,.sig}
sums=$(cd "$1" && sha256sum -- *)
printf '%s\n' "$sums" >"$1/SHA256SUMS"
[ -z "$key" ] || ssh-keygen -q -Y sign -f "$key" -n kubegc-release "$1/SHA256SUMS"
