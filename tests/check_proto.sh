#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_proto.sh ROOT CACHE VERSION - lints proto/ by the rules of proto/buf.yaml, and holds it against
# tests/golden/proto-MINOR.binpb: programs of one minor version understand each other. A new minor version begins
# with a new file, and an incompatible change before its release changes it:
#   cd proto && buf build --path psgd --exclude-source-info -o ../tests/golden/proto-0.1.binpb
#
# buf comes from npm, this very version, and stays in CACHE (outside the source
# tree) for the next time. PSGD_BUF names another one. Where it can be had
# neither way the check is skipped: exit code 77.
set -u
root=$1
cache=$2
minor=${3%.*}
version=1.75.0
buf=${PSGD_BUF:-$cache/buf-$version/node_modules/.bin/buf}

if [ ! -x "$buf" ]; then
    command -v npm >/dev/null || { echo "skipped: no npm to get buf with"; exit 77; }
    mkdir -p "$cache/buf-$version" &&
        npm install --silent --no-audit --no-fund --ignore-scripts \
            --prefix "$cache/buf-$version" "@bufbuild/buf@$version" >"$cache/buf-$version/npm.log" 2>&1 ||
        { echo "skipped: npm cannot get buf:"; tail -3 "$cache/buf-$version/npm.log"; exit 77; }
fi
released=$root/tests/golden/proto-$minor.binpb
cd "$root/proto" && "$buf" lint && "$buf" build -o /dev/null || exit 1
"$buf" breaking --path psgd --against "$released" || {
    echo "not compatible with psgd $minor, as $released has it; $0 says how to begin another version"
    exit 1
}
