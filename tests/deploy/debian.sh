#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# debian.sh BUILD [remove] - makes BUILD/debian for the tests of packages and of the image: `debs` has psgd's
# packages, `base` a clean Debian from the package mirror, with the lists of its packages. Needs root.
set -eu
at=$1/debian
rm -rf "$at"
[ "${2-}" != remove ] || exit 0
[ "$(id -u)" = 0 ] || { echo "skipped: a clean root file system needs root"; exit 77; }
mkdir -p "$at"
cmake --build "$1" --target man >/dev/null
cpack --config "$1/CPackConfig.cmake" -B "$at/debs" >/dev/null
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mmdebstrap --quiet --variant=minbase --skip=cleanup/apt "$suite" "$at/base"
