#!/usr/bin/env bash
# Builds the container image: one static binary, packed as an OCI layout in a tar file, without a daemon.
#
#   scripts/image.sh [--arch ARCH] [--binary BINARY] [--name NAME] [FILE]
#
# ARCH is that of scripts/binary.sh. BINARY is packed instead of a new one of the profile release: for tests. NAME is the
# name of the image (default: ghcr.io/kubegc/kubegc:VERSION), FILE the output (default: target/image/kubegc.tar). `ctr -n k8s.io images import FILE` imports it; skopeo, podman and
# crane read it too.
#
# The same commit, compiler and gzip give the same bytes (`scripts/reproducible.sh` compares two builds).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

arch=$(arch_of "$(uname -m)") binary='' name=ghcr.io/kubegc/kubegc:$version file=target/image/kubegc.tar
while [ $# -gt 0 ]; do
  case $1 in
    --arch) arch=$2; shift 2 ;;
    --binary) binary=$2; shift 2 ;;
    --name) name=$2; shift 2 ;;
    -*) die "unknown option $1" ;;
    *) file=$1; shift ;;
  esac
done
compression=-9
[ -z "$binary" ] || compression=-1

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# blob FILE: moves a file to the path of its digest, and prints `"digest":…,"size":…` of it.
blob() {
  local digest size
  digest=$(sha256sum <"$1" | cut -d ' ' -f 1)
  size=$(stat -c %s "$1")
  mv "$1" "$work/layout/blobs/sha256/$digest"
  printf '"digest":"sha256:%s","size":%s' "$digest" "$size"
}

mkdir -p "$work/root/usr/bin" "$work/layout/blobs/sha256" "$(dirname "$file")"
put_binary "$arch" "$binary" "$work/root/usr/bin/kubegc"
pack -C "$work/root" usr >"$work/layer.tar"
diff_id=sha256:$(sha256sum <"$work/layer.tar" | cut -d ' ' -f 1)
gzip -n $compression "$work/layer.tar"
layer=$(blob "$work/layer.tar.gz")

created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
labels=$(printf '"org.opencontainers.image.%s":"%s",' title kubegc version "$version" revision "$revision" \
  created "$created" licenses Apache-2.0 source https://github.com/kubegc/kubegc)
printf '{"architecture":"%s","os":"linux","created":"%s","config":{"User":"0:0","Entrypoint":["/usr/bin/kubegc"],"Cmd":["run"],"Labels":{%s}},"rootfs":{"type":"layers","diff_ids":["%s"]}}' \
  "$arch" "$created" "${labels%,}" "$diff_id" >"$work/config"
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
