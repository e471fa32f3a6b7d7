#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# containerfile.sh BUILD - buildah builds deploy/image/Containerfile without a registry: BUILD/debian/base has the name
# that FROM asks for. The image trains the tutorial. Needs root; after debian.sh BUILD.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: chroot isolation needs root"; exit 77; }
base=$(realpath "$1")/debian/base
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'buildah_ rm --all >/dev/null; buildah_ rmi --all --force >/dev/null; umount -q "$work/root/overlay" || true; rm -rf "$work"' EXIT
driver=overlay
[ "$(stat -f -c %T "$work")" != overlayfs ] || driver=vfs
buildah_() { buildah --root "$work/root" --runroot "$work/run" --storage-driver $driver "$@"; }

name=$(sed -n 's/^FROM \([^ ]*\)$/\1/p' deploy/image/Containerfile)
container=$(buildah_ from scratch)
buildah_ add -q "$container" "$base" / >/dev/null
buildah_ commit -q "$container" "docker.io/library/$name" >/dev/null
buildah_ bud --isolation chroot --pull-never -f deploy/image/Containerfile -t psgd . >"$work/log" 2>&1 || { tail -n 30 "$work/log"; exit 1; }
container=$(buildah_ from --pull-never localhost/psgd)
buildah_ run --isolation chroot "$container" -- sh -c 'cd /tmp && psgd-role psgd train --preset tutorial-glyphs --epochs 1 &&
    test "$(id -u)" = 15386 && ls */*.safetensors'
