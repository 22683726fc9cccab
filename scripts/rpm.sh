#!/usr/bin/env bash
# Builds the RPM package, with Debian's rpmbuild. It has the same files as the Debian package, and installs on Fedora, RHEL
# and SUSE.
#
#   scripts/rpm.sh [--arch ARCH | --binary BINARY] [--version VERSION] [FILE]
#
# ARCH is that of scripts/binary.sh. BINARY, which runs here, is packed instead of a new static one: for tests. VERSION is
# the version of the package (default: that of kubegc) and must have no hyphen, FILE the output (default:
# target/rpm/kubegc-VERSION-1.ARCH.rpm, with rpm's name of the architecture). The same commit and compiler give the same
# bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

arch=$(arch_of "$(uname -m)") binary='' rpm_version=$version file=''
while [ $# -gt 0 ]; do
  case $1 in
    --binary) binary=$2; shift 2 ;;
    --arch) arch=$2; shift 2 ;;
    --version) rpm_version=$2; shift 2 ;;
    -*) die "unknown option $1" ;;
    *) file=$1; shift ;;
  esac
done
machine=$(machine_of "$arch")
command -v rpmbuild >/dev/null || die "missing: rpmbuild. Install with: apt-get install rpm"
file=${file:-target/rpm/kubegc-$rpm_version-1.$machine.rpm}
payload=w7.xzdio # one thread: the bytes do not depend on the number of cores
[ -z "$binary" ] || payload=w1.gzdio

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
root=$work/root
share=$root/usr/share
mkdir -p "$root"/{usr/bin,etc/kubegc/conf.d} "$share"/{doc,licenses}/kubegc
put_binary "$arch" "$binary" "$root/usr/bin/kubegc"
scripts/tree.sh "$(runs_here "$arch" "$root/usr/bin/kubegc")" "$root"
mv "$share"/zsh/{vendor-completions,site-functions}
cp packaging/deb/kubegc.toml "$root/etc/kubegc/"
cp README.md CHANGELOG.md config/default.toml "$share/doc/kubegc/"
cp LICENSE "$share/licenses/kubegc/"
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

# The home directory has the output, and none of the user's macros.
HOME=$work rpmbuild -bb --target "$machine-linux" --define "tree $root" --define "package_version $rpm_version" \
  --define "payload $payload" packaging/rpm/kubegc.spec >"$work/log" 2>&1 || die "rpmbuild failed: $(cat "$work/log")"
mkdir -p "$(dirname "$file")"
mv "$work"/rpmbuild/RPMS/*/kubegc-*.rpm "$file.$$"
mv "$file.$$" "$file"
printf '%s: kubegc %s for %s, %s bytes\n' "$file" "$rpm_version" "$arch" "$(stat -c %s "$file")"
