#!/usr/bin/env bash
# Prepares promtool for the tests of metrics, and changes nothing on the host.
#
#   scripts/prometheus.sh            prints the directory with prometheus and promtool, from Debian 12
#
# The script installs no package (`packages.sh`). A second run uses no network.
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "${BASH_SOURCE[0]%/*}/packages.sh"
dir=$(programs prometheus bookworm prometheus prometheus promtool)
"$dir/promtool" --version >/dev/null 2>&1 || die "promtool of bookworm does not run here"
printf '%s\n' "$dir"
