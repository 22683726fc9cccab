#!/usr/bin/env bash
# Builds the container image: one static binary, packed as an OCI layout in a tar file, without a daemon.
#
#   scripts/image.sh [--profile PROFILE] [--name NAME] [FILE]
#
# PROFILE is cargo's profile (default: release), NAME the name of the image (default: ghcr.io/kubegc/kubegc:VERSION),
# FILE the output (default: target/image/kubegc.tar). `ctr -n k8s.io images import FILE` imports it; skopeo, podman and
# crane read it too.
#
# The same sources, commit, compiler and gzip produce the same bytes: files are sorted and have no times and no owners,
# and the binary has no paths of the build machine.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'image.sh: %s\n' "$*" >&2; exit 1; }

version=$(sed -nE 's/^version = "(.+)"$/\1/p' Cargo.toml | head -n 1)
profile=release name=ghcr.io/kubegc/kubegc:$version file=target/image/kubegc.tar
while [ $# -gt 0 ]; do
  case $1 in
    --profile) profile=$2; shift 2 ;;
    --name) name=$2; shift 2 ;;
    -*) die "unknown option $1" ;;
    *) file=$1; shift ;;
  esac
done
case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64) arch=arm64 ;;
  *) die "no image for $(uname -m)" ;;
esac

# --- The binary. Debian's C library links statically too. Name lookup still works: since 2.34 the library contains the
# lookup in files and DNS. --target limits the static flag to the binary: build scripts and proc macros load libraries.
scripts/setup.sh build
target=$(uname -m)-unknown-linux-gnu
export RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$PWD=kubegc --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
KUBEGC_COMMIT=$(scripts/commit.sh)
export KUBEGC_COMMIT
# Cargo sets these for tests, which call this script. A build script of a crate depends on them, so without this line each
# change between a shell and the tests would build that crate, and all that use it, again.
unset CARGO_MANIFEST_DIR CARGO_MANIFEST_LINKS "${!CARGO_PKG_@}"
cargo build --locked --bin kubegc --profile "$profile" --target "$target"
out=${CARGO_TARGET_DIR:-target}/$target/${profile/#dev/debug}
if readelf --program-headers "$out/kubegc" | grep -q INTERP; then die "$out/kubegc is not static"; fi

# --- The image.
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
export TZ=UTC LC_ALL=C
pack() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --format=ustar -c "$@"; }

# blob FILE: moves a file to the path of its digest, and prints `"digest":…,"size":…` of it.
blob() {
  local digest size
  digest=$(sha256sum <"$1" | cut -d ' ' -f 1)
  size=$(stat -c %s "$1")
  mv "$1" "$work/layout/blobs/sha256/$digest"
  printf '"digest":"sha256:%s","size":%s' "$digest" "$size"
}

mkdir -p "$work/root/usr/bin" "$work/layout/blobs/sha256" "$(dirname "$file")"
strip -o "$work/root/usr/bin/kubegc" "$out/kubegc"
pack -C "$work/root" usr >"$work/layer.tar"
diff_id=sha256:$(sha256sum <"$work/layer.tar" | cut -d ' ' -f 1)
gzip -n "$work/layer.tar"
layer=$(blob "$work/layer.tar.gz")

labels=$(printf '"org.opencontainers.image.%s":"%s",' title kubegc version "$version" licenses Apache-2.0 \
  source https://github.com/kubegc/kubegc)
printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":{"User":"0:0","Entrypoint":["/usr/bin/kubegc"],"Cmd":["run"],"Labels":{%s}},"rootfs":{"type":"layers","diff_ids":["%s"]}}' \
  "$arch" "${labels%,}" "$diff_id" >"$work/config"
config=$(blob "$work/config")

oci=application/vnd.oci.image
printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":{"mediaType":"%s.config.v1+json",%s},"layers":[{"mediaType":"%s.layer.v1.tar+gzip",%s}]}' \
  $oci $oci "$config" $oci "$layer" >"$work/manifest"
manifest=$(blob "$work/manifest")

# containerd reads the whole name from its own annotation. Other tools read the tag from the annotation of the standard.
printf '{"schemaVersion":2,"mediaType":"%s.index.v1+json","manifests":[{"mediaType":"%s.manifest.v1+json",%s,"platform":{"architecture":"%s","os":"linux"},"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"}}]}' \
  $oci $oci "$manifest" "$arch" "$name" "${name##*:}" >"$work/layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/layout/oci-layout"
pack -C "$work/layout" oci-layout index.json blobs >"$file.$$"
mv "$file.$$" "$file" # atomic: the file is always complete, even if another build writes it too
printf '%s: %s, %s bytes; the binary in it has %s\n' \
  "$file" "$name" "$(stat -c %s "$file")" "$(stat -c %s "$work/root/usr/bin/kubegc")"
