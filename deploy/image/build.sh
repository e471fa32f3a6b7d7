#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh DEBS OUTPUT - makes the image of psgd without a registry: Debian by mmdebstrap, psgd's packages
# of the folder DEBS (cpack; docs/install.md), and OUTPUT, a folder in the layout of OCI images.
# Needs root, for the owners of the image's files.
#   --base DIR    begin with a copy of this Debian, by mmdebstrap --variant=minbase --skip=cleanup/apt
#   --tag NAME    name of the image in OUTPUT (default: latest)
# Then for example: skopeo copy oci:OUTPUT:latest docker://REGISTRY/psgd:0.1, or podman pull oci:OUTPUT:latest
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage() { sed -n '3,9s/^# \{0,1\}//p' "$0"; }
base='' tag=latest
while [ $# -gt 0 ]; do
    case $1 in
    --base) base=${2:?--base needs a folder}; shift ;;
    --tag) tag=${2:?--tag needs a name}; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; echo "build.sh: unknown option '$1'" >&2; exit 4 ;;
    *) break ;;
    esac
    shift
done
[ $# = 2 ] || { usage >&2; exit 4; }
debs=$1 output=$2
compgen -G "$debs/*.deb" >/dev/null || { echo "build.sh: no .deb in $debs; make them by cpack" >&2; exit 4; }
[ "$(id -u)" = 0 ] || { echo "build.sh: run it as root" >&2; exit 1; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
if [ -n "$base" ]; then
    cp -a "$base/." "$root"
else
    mmdebstrap --quiet --variant=minbase --skip=cleanup/apt bookworm "$root"
fi
mkdir "$root/debs" "$root/image"
cp "$debs"/*.deb "$root/debs"
cp "$here/install.sh" "$here"/psgd-* "$root/image"
chroot "$root" /image/install.sh >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }
rm -rf "$root/debs" "$root/image" "$root.log"

# --- the layout: https://github.com/opencontainers/image-spec/blob/main/image-layout.md ---------
blobs=$output/blobs/sha256
mkdir -p "$blobs"
blob() { # moves a file there and prints its digest and size, as a descriptor has them
    local sum
    sum=$(sha256sum "$1" | cut -d' ' -f1)
    mv "$1" "$blobs/$sum"
    echo "\"digest\": \"sha256:$sum\", \"size\": $(stat -c %s "$blobs/$sum")"
}
setting() { sed -n "s/^$1 //p" "$here/Containerfile" | tail -n 1; } # the last stage's
when=${SOURCE_DATE_EPOCH:-$(date +%s)}
tar --sort=name --mtime="@$when" --clamp-mtime --numeric-owner --xattrs -C "$root" -cf "$output/layer.tar" .
diff_id=$(sha256sum "$output/layer.tar" | cut -d' ' -f1)
gzip -nf "$output/layer.tar"
layer=$(blob "$output/layer.tar.gz")
cat >"$output/config" <<END
{"created": "$(date -u -d "@$when" +%FT%TZ)", "architecture": "$(dpkg --print-architecture)", "os": "linux",
 "config": {"User": "$(setting USER)", "WorkingDir": "$(setting WORKDIR)", "Entrypoint": $(setting ENTRYPOINT),
  "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "$(setting ENV)"],
  "StopSignal": "$(setting STOPSIGNAL)"},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$diff_id"]}}
END
config=$(blob "$output/config")
cat >"$output/manifest" <<END
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
 "config": {"mediaType": "application/vnd.oci.image.config.v1+json", $config},
 "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", $layer}]}
END
cat >"$output/index.json" <<END
{"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", $(blob "$output/manifest"),
 "annotations": {"org.opencontainers.image.ref.name": "$tag"}}]}
END
echo '{"imageLayoutVersion": "1.0.0"}' >"$output/oci-layout"
echo "image $output:$tag: $(du -sm "$root" | cut -f1) MB, packed $(du -sm "$output" | cut -f1) MB"
