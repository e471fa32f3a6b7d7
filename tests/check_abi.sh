#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_abi.sh LIBRARY ROOT VERSION - holds the ABI of libpsgd, its functions and the structures of its header, against
# tests/golden/libpsgd-MINOR.abi: programs that were built with a version run with all later ones of its minor version.
# New functions are allowed. A new minor version begins with a new file, and an incompatible change before its release
# changes it:
#   tests/check_abi.sh build/lib/libpsgd.so.0 . 0.1.0 --record
#
# Where abidiff is not installed (Debian: abigail-tools) the check is skipped: exit code 77.
set -eu
library=$1 root=$2 minor=${3%.*}
recorded=$root/tests/golden/libpsgd-$minor.abi
command -v abidiff >/dev/null || { echo "skipped: no abidiff"; exit 77; }
if [ "${4:-}" = --record ]; then
    exec abidw --headers-dir "$root/clients/lib" --drop-private-types --no-show-locs --no-corpus-path --no-comp-dir-path \
        --no-elf-needed --exported-interfaces-only --out-file "$recorded" "$library"
fi
abidiff --no-added-syms "$recorded" "$library" || {
    echo "not compatible with psgd $minor, as $recorded has it; $0 says how to begin another version" >&2
    exit 1
}
