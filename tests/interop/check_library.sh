#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_library.sh BUILD SOURCE - installs libpsgd elsewhere, builds the example in C against it and runs that.
set -eu
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
for component in libpsgd0 libpsgd-dev; do
    cmake --install "$1" --prefix "$at/usr" --component $component >/dev/null
done
mv "$at/usr" "$at/moved" # nothing in the files says where they were put
PKG_CONFIG_PATH=$(dirname "$(find "$at/moved" -name psgd.pc)")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH LD_LIBRARY_PATH
cc -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$at/example" "$2/clients/examples/c/encode_gradient.c" $(pkg-config --cflags --libs psgd) -lm
version=$(pkg-config --modversion psgd)

is() { # spec, what is printed
    said=$("$at/example" "$1" 2>&1) || true
    [ "$said" = "$2" ] || { printf 'with %s\n%s\nnot\n%s\n' "$1" "$said" "$2" >&2; exit 1; }
}
is f32 "psgd $version: 100000 values in 400089 bytes, error of the mean of 20 steps 0.000"
is topk:fraction=0.05,error_feedback=1 "psgd $version: 100000 values in 28850 bytes, error of the mean of 20 steps 0.125"
is topk:fraction=7 "topk.fraction: is 7; numbers 0.0001 to 0.5 are allowed"
