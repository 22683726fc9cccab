#!/usr/bin/env bash
# Builds the Debian package, with dpkg-deb alone: every machine that can install the package has it. cargo-deb takes longer
# to compile than all other tools together, and a package of one binary needs little of it.
#
#   scripts/deb.sh [--arch ARCH | --binary BINARY] [--version VERSION] [FILE]
#
# ARCH is that of scripts/binary.sh. BINARY, which runs here, is packed instead of a new static one: for tests. VERSION is
# the version of the package (default: that of kubegc, with the revision -1), FILE the output (default:
# target/deb/kubegc_VERSION_ARCH.deb). The static binary needs no other package. The same commit and compiler give the
# same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

arch=$(arch_of "$(uname -m)") binary='' deb_version=$version-1 file=''
while [ $# -gt 0 ]; do
  case $1 in
    --binary) binary=$2; shift 2 ;;
    --arch) arch=$2; shift 2 ;;
    --version) deb_version=$2; shift 2 ;;
    -*) die "unknown option $1" ;;
    *) file=$1; shift ;;
  esac
done
file=${file:-target/deb/kubegc_${deb_version}_$arch.deb}
compression=(-Zxz)
[ -z "$binary" ] || compression=(-Zgzip -z1)

root=$(mktemp -d)
trap 'rm -r "$root"' EXIT
umask 022
chmod 0755 "$root"
doc=$root/usr/share/doc/kubegc
mkdir -p "$root"/{DEBIAN,usr/bin,etc/kubegc/conf.d,usr/share/lintian/overrides} "$doc"
put_binary "$arch" "$binary" "$root/usr/bin/kubegc"
scripts/tree.sh "$(runs_here "$arch" "$root/usr/bin/kubegc")" "$root"
cp packaging/deb/kubegc.toml "$root/etc/kubegc/"
echo /etc/kubegc/kubegc.toml >"$root/DEBIAN/conffiles"
cp packaging/deb/copyright README.md config/default.toml "$doc/"
cp packaging/deb/lintian-overrides "$root/usr/share/lintian/overrides/kubegc"
gzip -n -9 <CHANGELOG.md >"$doc/changelog.gz"
maintainer='kubegc maintainers <kubegc@users.noreply.github.com>'
printf 'kubegc (%s) unstable; urgency=medium\n\n  * Version %s; changelog.gz has the changes.\n\n -- %s  %s\n' \
  "$deb_version" "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -n -9 >"$doc/changelog.Debian.gz"
install -m 0755 packaging/deb/{postinst,prerm,postrm} "$root/DEBIAN/"
cat >"$root/DEBIAN/control" <<END
Package: kubegc
Version: $deb_version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$root" | cut -f 1)
Section: admin
Priority: optional
Homepage: https://github.com/kubegc/kubegc
Description: garbage collector for Kubernetes nodes
 kubegc removes dead containers, dead pod sandboxes and unused images through
 the container runtime interface (CRI), and deletes the logs of deleted pods.
 It shows in advance what it will remove and why, and why it keeps everything
 else.
END
chmod -R u=rwX,go=rX "$root/usr" "$root/etc"
chmod 0755 "$root/usr/bin/kubegc"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

mkdir -p "$(dirname "$file")"
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group "${compression[@]}" --build "$root" "$file.$$" >/dev/null
mv "$file.$$" "$file"
printf '%s: kubegc %s for %s, %s bytes\n' "$file" "$deb_version" "$arch" "$(stat -c %s "$file")"
