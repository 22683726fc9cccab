#!/usr/bin/env bash
# Prepares a Debian 12 with Rust to build kubegc and to run its tests. It skips what is installed, so a second run takes
# no time and no network.
#
#   scripts/setup.sh build    installs what the compiler needs: SQLite and jemalloc are built from their C source
#   scripts/setup.sh          also installs what the tests need: ext4, loop devices, namespaces, containerd,
#                           Kubernetes, kubectl, Helm, Prometheus, a browser, lintian, rpm, rpmlint, and the shells whose
#                           completions are tested, and CRI-O if KUBEGC_CRIO names one. The tests themselves have no network
#   scripts/setup.sh release  also installs what the files of a release and their tests need: a C compiler for arm64, and
#                           an emulator that runs its programs
#
# As root it installs what is missing. Otherwise it prints what is missing and exits with 1.
set -euo pipefail

die() { printf 'setup.sh: %s\n' "$*" >&2; exit 1; }

# COMMAND:PACKAGE: a command, and the Debian package that contains it.
wanted=(cc:gcc make:make)
[ "${1:-}" = build ] || wanted+=(mkfs.ext4:e2fsprogs mount:mount losetup:mount unshare:util-linux flock:util-linux
  nsenter:util-linux ip:iproute2 findmnt:util-linux git:git openssl:openssl curl:curl systemd-analyze:systemd bash:bash
  zsh:zsh fish:fish python3:python3 pip3:python3-pip ssh-keygen:openssh-client jq:jq rpm:rpm
  rpmlint:rpmlint)

[ "${1:-}" != release ] || wanted+=(aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static
  go:golang-go)

PATH=$PATH:/usr/sbin:/sbin # a normal user's PATH does not have mkfs.ext4 and losetup
missing=()
for want in "${wanted[@]}"; do
  command -v "${want%%:*}" >/dev/null || missing+=("${want#*:}")
done
# gcc alone compiles but does not link: the files of the C library are in a package that gcc only recommends.
[ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
[ "${1:-}" != release ] || [ -e /usr/aarch64-linux-gnu/include/stdlib.h ] || missing+=(libc6-dev-arm64-cross)
# conmon, which CRI-O starts for each container, is fetched without its library. With -q, grep would end before ldconfig has
# written all, and pipefail would report that as a failure.
[ -z "${KUBEGC_CRIO:-}" ] || ldconfig -p | grep 'libglib-2\.0\.so\.0 ' >/dev/null || missing+=(libglib2.0-0)

if [ ${#missing[@]} -gt 0 ]; then
  [ "$(id -u)" -eq 0 ] || die "missing: ${missing[*]}. Install with: apt-get install ${missing[*]}"
  printf 'setup.sh: installing %s\n' "${missing[*]}" >&2
  log=$(mktemp)
  { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1 || die "could not install ${missing[*]}: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log")"
  rm "$log"
fi

command -v cargo >/dev/null || die "missing: cargo. Rust comes from https://rustup.rs"
[ "${1:-}" != build ] || exit 0
"$(dirname "$0")/containerd.sh" >/dev/null
"$(dirname "$0")/kubernetes.sh" >/dev/null
[ -z "${KUBEGC_CRIO:-}" ] || "$(dirname "$0")/crio.sh" >/dev/null
"$(dirname "$0")/kubectl.sh" >/dev/null
"$(dirname "$0")/helm.sh"
"$(dirname "$0")/prometheus.sh" >/dev/null
"$(dirname "$0")/browser.sh" >/dev/null
"$(dirname "$0")/lintian.sh"
