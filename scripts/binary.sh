#!/usr/bin/env bash
# Builds the static binary that the image, the packages and the archive contain, and prints its path. It is linked
# against Debian's C library, so no second toolchain is needed.
#
#   scripts/binary.sh [--arch ARCH] [--compiler]
#
# ARCH is amd64 or arm64 (default: that of this machine). For the other architecture Debian's cross compiler must be
# installed. If rustup has not installed the standard library for it, Debian's Rust compiler is used (scripts/cross.sh).
# With --compiler it builds nothing, and prints the version of the Rust compiler that it would use (`rustc -vV`).
#
# The same source and compiler give the same bytes: the binary has no paths of the build machine.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

own=$(arch_of "$(uname -m)")
arch=$own compiler=''
while [ $# -gt 0 ]; do
  case $1 in
    --arch) arch=$2; shift 2 ;;
    --compiler) compiler=only; shift ;;
    *) die "unknown option $1" ;;
  esac
done
machine=$(machine_of "$arch")
target=$machine-unknown-linux-gnu

scripts/setup.sh build
cross=''
if [ "$arch" != "$own" ]; then
  cross=$machine-linux-gnu-
  command -v "${cross}gcc" >/dev/null ||
    die "missing: ${cross}gcc. Install with: apt-get install gcc-$machine-linux-gnu libc6-dev-$arch-cross"
  if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    RUSTC=$(scripts/cross.sh "$arch")
    export RUSTC
  fi
  linker=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$target")_LINKER
  export "$linker=${cross}gcc" "CC_${target//-/_}=${cross}gcc" "AR_${target//-/_}=${cross}ar"
fi
if [ -n "$compiler" ]; then exec "${RUSTC:-rustc}" -vV; fi

# Debian's C library links statically too. Name lookup still works: since 2.34 the library contains the lookup in files
# and DNS. --target limits the static flag to the binary: build scripts and proc macros load libraries.
flags="-C target-feature=+crt-static --remap-path-prefix=$PWD=kubegc --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
# LLVM's linker, which rustup installs, keeps one of equal functions and packs relocations: a twentieth of the size.
lld=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/gcc-ld
[ ! -x "$lld/ld.lld" ] ||
  flags="$flags -C link-arg=-fuse-ld=lld -C link-arg=-B$lld -C link-arg=-Wl,--icf=safe,-z,pack-relative-relocs"
export RUSTFLAGS=$flags
KUBEGC_COMMIT=$(scripts/commit.sh)
export KUBEGC_COMMIT
cargo build --locked --bin kubegc --release --target "$target" >&2
out=${CARGO_TARGET_DIR:-$PWD/target}/$target/release
if "${cross}readelf" --program-headers "$out/kubegc" | grep INTERP >/dev/null; then die "$out/kubegc is not static"; fi
"${cross}strip" -o "$out/kubegc.stripped.$$" "$out/kubegc"
mv "$out/kubegc.stripped.$$" "$out/kubegc.stripped" # atomic: another build may use it
echo "$out/kubegc.stripped"
