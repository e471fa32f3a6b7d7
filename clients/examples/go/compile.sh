#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile.sh [--check] FOLDER - makes FOLDER/psgd-client of Debian's packages (README.md), without a network.
# Everything that is made on the way is in FOLDER too. --check: gofmt and go vet look at the sources first.
set -eu
check=0
[ "${1:-}" != --check ] || { check=1; shift; }
[ $# = 1 ] || { sed -n '3,4s/^# //p' "$0" >&2; exit 4; }
mkdir -p "$1/gopath/src"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
proto=../../../proto

# The .proto files do not say which Go package they are, so protoc is told.
set -- psgd/v1/spec.proto psgd/v1/job.proto psgd/v1/membership.proto psgd/v1/coordinator.proto
map=
for file in "$@"; do
    map="$map,M$file=example.com/psgd/psgdpb"
done
protoc -I "$proto" --go_out="${map#,}:$out/gopath/src" --go-grpc_out="${map#,}:$out/gopath/src" "$@"

# Debian's libraries are below a GOPATH, without modules.
export GOENV=off GOFLAGS= GO111MODULE=off GOPATH="$out/gopath:/usr/share/gocode" GOCACHE="$out/cache"
if [ $check = 1 ]; then
    unformatted=$(gofmt -d ./*.go)
    [ -z "$unformatted" ] || { printf 'gofmt would change\n%s\n' "$unformatted" >&2; exit 1; }
    go vet ./*.go
fi
go build -o "$out/psgd-client" ./*.go
