#!/usr/bin/env bash
# Helm for the tests of the chart; changes nothing on the host.
#
#   scripts/helm.sh            prepares Helm in the cache, once
#   scripts/helm.sh VERB …     runs Helm, as scripts/helm.py describes
#
# Debian has no package of Helm. The package helm-python-sdk of PyPI contains Helm's own library, version 4.2.
# A second run uses no network.
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "${BASH_SOURCE[0]%/*}/packages.sh"
version=0.2.2
wheel=28cc13abaf134c3a7e37f070c939be8d9cdc9825c3c8b8b2d35161073bcd4578 # of x86_64
name=helm-$version

# prepare NEW: downloads the package and unpacks it into NEW, with one of the three copies of its library.
prepare() {
  local new=$1
  command -v python3 >/dev/null || die "needs python3; scripts/setup.sh installs it"
  python3 -m pip --version >/dev/null 2>&1 || die "needs pip of python3; scripts/setup.sh installs it"
  say "fetching helm-python-sdk $version"
  mkdir "$new/wheel"
  printf 'helm-python-sdk==%s --hash=sha256:%s\n' "$version" "$wheel" >"$new/wheel/wanted"
  python3 -m pip --disable-pip-version-check download --quiet --no-deps --only-binary=:all: --require-hashes \
    --dest "$new/wheel" --requirement "$new/wheel/wanted" >"$new/wheel/log" 2>&1 ||
    die "cannot download helm-python-sdk from PyPI (offline, or not x86_64?): $(tail -n 1 "$new/wheel/log")"
  python3 -m zipfile --extract "$new"/wheel/*.whl "$new"
  rm -r "$new/wheel" "$new"/helm_python/lib/libhelm_c.so.*
}

once "$name" prepare
[ $# -eq 0 ] || PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$cache/$name exec python3 "${BASH_SOURCE[0]%/*}/helm.py" "$@"
