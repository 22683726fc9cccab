#!/usr/bin/env bash
# Prepares kubectl for the tests of the manifests, and changes nothing on the host.
#
#   scripts/kubectl.sh            prints the path of kubectl, which contains Kustomize 5 (kubectl kustomize)
#
# It is Debian 13's. The script installs no package (`packages.sh`). It does not fetch again what is in the cache.
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "${BASH_SOURCE[0]%/*}/packages.sh"
kubectl=$(programs kubectl trixie kubectl kubectl)/kubectl
"$kubectl" version --client >/dev/null || die "kubectl of trixie does not run here"
printf '%s\n' "$kubectl"
