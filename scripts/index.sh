#!/usr/bin/env bash
# Joins the images of several architectures, so that one file and one name serve all nodes.
#
#   scripts/index.sh FILE ARCHIVE…
#
# Each ARCHIVE is an output of scripts/image.sh. All have the same name, which FILE gets too. FILE is an OCI layout whose
# index.json has one entry: an image index with the manifest of each architecture. A list of the manifests in index.json
# itself would not do: containerd makes an image of each entry, and the last one with a name replaces the others.
#
# `ctr -n k8s.io images import FILE` and `skopeo copy --all oci-archive:FILE …` read it. The same archives in the same order
# give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

[ $# -ge 2 ] || die "usage: scripts/index.sh FILE ARCHIVE…"
file=$1
shift

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
mkdir -p "$work/layout" "$(dirname "$file")"
entry='"manifests":\[(\{.+\}),"annotations":(\{[^}]+\})\}\]\}$' # the end of an index.json of scripts/image.sh
manifests='' annotations=''
for archive; do
  tar -x -C "$work/layout" -f "$archive" 2>"$work/error" || die "cannot read \"$archive\": $(head -n 1 "$work/error")"
  [[ $(<"$work/layout/index.json") =~ $entry ]] || die "\"$archive\" is not an image of scripts/image.sh"
  manifests+=",${BASH_REMATCH[1]}}"
  [ "${annotations:=${BASH_REMATCH[2]}}" = "${BASH_REMATCH[2]}" ] || die "\"$archive\" has another name than \"$1\""
done

media=application/vnd.oci.image.index.v1+json
printf '{"schemaVersion":2,"mediaType":"%s","manifests":[%s]}' $media "${manifests#,}" >"$work/index"
digest=$(sha256sum <"$work/index" | cut -d ' ' -f 1)
size=$(stat -c %s "$work/index")
mv "$work/index" "$work/layout/blobs/sha256/$digest"
printf '{"schemaVersion":2,"mediaType":"%s","manifests":[{"mediaType":"%s","digest":"sha256:%s","size":%s,"annotations":%s}]}' \
  $media $media "$digest" "$size" "$annotations" >"$work/layout/index.json"
pack -C "$work/layout" oci-layout index.json blobs >"$file.$$"
mv "$file.$$" "$file"
printf '%s: %s architectures, %s bytes\n' "$file" $# "$(stat -c %s "$file")"
