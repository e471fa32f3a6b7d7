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
cc -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$at/own_loop" "$2/clients/examples/c/own_loop.c" $(pkg-config --cflags --libs psgd)
version=$(pkg-config --modversion psgd)

is() { # spec, what is printed
    said=$("$at/example" "$1" 2>&1) || true
    [ "$said" = "$2" ] || { printf 'with %s\n%s\nnot\n%s\n' "$1" "$said" "$2" >&2; exit 1; }
}
said=$(PSGD_WORKER=/nowhere "$at/own_loop" line 2>&1) && exit 1
[ "$said" = "/nowhere: No such file or directory; put psgd-worker on the PATH, or set PSGD_WORKER to its path" ] || { echo "$said" >&2; exit 1; }
said=$("$at/own_loop" "a b" 2>&1) && exit 1
[ "$said" = "title: 1 to 64 of A-Z a-z 0-9 . _ - are allowed, no dot in front" ] || { echo "$said" >&2; exit 1; }
is f32 "psgd $version: 100000 values in 400089 bytes, error of the mean of 20 steps 0.000"
is topk:fraction=0.05,error_feedback=1 "psgd $version: 100000 values in 28850 bytes, error of the mean of 20 steps 0.125"
is topk:fraction=7 "topk.fraction: is 7; numbers 0.0001 to 0.5 are allowed"
