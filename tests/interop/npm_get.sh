#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# npm_get.sh FOLDER PACKAGE@VERSION - has npm put a package into FOLDER, once.
#
# What is there stays for the next time. Fails where npm cannot get it.
set -u
folder=$1
package=$2

[ ! -f "$folder/.$(echo "$package" | tr / _)" ] || exit 0
command -v npm >/dev/null || { echo "no npm to get $package with; deploy/packages.sh test" >&2; exit 1; }
mkdir -p "$folder"
[ -f "$folder/package.json" ] || echo '{"private": true}' >"$folder/package.json"
npm install --silent --no-audit --no-fund --ignore-scripts --no-package-lock \
    --prefix "$folder" "$package" >"$folder/npm.log" 2>&1 ||
    { echo "npm cannot get $package:" >&2; tail -3 "$folder/npm.log" >&2; exit 1; }
touch "$folder/.$(echo "$package" | tr / _)"
