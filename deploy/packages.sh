#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh [--check] [build] [test] [fuzz] [bench] - installs the Debian packages that are
# missing, saying which and why; says and does nothing when all are there.
#   --check    installs nothing; the exit status is 1 if a package is missing
set -euo pipefail

# group package reason
table="
build  gcc                    the compiler
build  cmake                  the build
build  ninja-build            the build
build  pkg-config             finds libraries for the build
build  libc6-dev              headers of the C library
build  libgrpc-dev            gRPC, what the services speak
build  libprotobuf-c-dev      messages in C
build  protobuf-c-compiler    makes C from the .proto files
build  protobuf-compiler      describes the .proto files for reflection
build  libprotobuf-dev        the .proto files of timestamps
build  libopenblas-dev        matrix products
build  libjansson-dev         JSON
build  libyaml-dev            YAML
build  libsqlite3-dev         the coordinator's registry
build  libxxhash-dev          checksums
build  libssl-dev             SHA-256, keys, certificates and TLS handshakes
build  libmicrohttpd-dev      the HTTP server of --ops and --web
build  libgnutls28-dev        TLS of --ops and --web
build  libcurl4-openssl-dev   calls to MLflow, the tracker of jobs
build  libjs-dygraphs         the charts of the coordinator's page
build  zlib1g-dev             .gz data files and CRC-32
build  liblz4-dev             compressed gradients
build  libzstd-dev            compressed gradients
build  liblua5.4-dev          runs the code of jobs
build  libseccomp-dev         takes system calls from the process that does
test   libcmocka-dev          unit tests
test   sqlite3                looks into the registry
test   openssl                sees what TLS handshakes agree on
test   python3-grpcio         a foreign client
test   python3-grpc-tools     a foreign client
test   python3-protobuf       a foreign client
test   python3-numpy          loads models, and the peer in benchmarks
test   python3-torch          loads models, and the peer in benchmarks
test   python3-onnx           checks ONNX files
test   python3-ipython        shows curves as a notebook does
test   mypy                   checks the types of the Python package
test   nodejs                 a foreign client, buf, and onnxruntime
test   npm                    a foreign client, buf, and onnxruntime
test   golang-go              a foreign client
test   golang-google-grpc-dev a foreign client
test   golang-google-protobuf-dev a foreign client
test   golang-github-golang-protobuf-1-5-dev a foreign client
test   protoc-gen-go-1-5      a foreign client
test   protoc-gen-go-grpc     a foreign client
test   etcd-server            the store of several coordinators
test   etcd-client            looks into it
test   prometheus             reads metrics, and checks their text
test   chromium               looks at the coordinator's page
test   chromium-driver        drives it
test   python3-selenium       drives it
test   iproute2               counts bytes in a network of its own
test   openssh-server         hosts for psgd launch, in networks of their own
test   nftables               cuts machines off each other in a network of their own
test   zsh                    completes command lines
test   help2man               manual pages of the packages
test   dpkg-dev               finds what the packages depend on
test   abigail-tools          holds the ABI of libpsgd against the recorded one
test   file                   finds programs in them
test   lintian                checks the packages
test   mmdebstrap             a clean Debian for the packages
test   python3-jsonschema     holds manifests against their schemas
test   python3-yaml           reads them
test   kubernetes-client      kubectl renders manifests
test   buildah                builds the Containerfile
test   umoci                  unpacks the image
test   runc                   runs it
test   systemd                checks units
test   systemd-container      boots the clean Debian
test   slurmctld              a Slurm of one host
test   slurmd                 a Slurm of one host
test   slurm-client           sbatch, srun and others
test   munge                  tells Slurm's processes who calls
fuzz   clang                  the fuzzers' compiler
fuzz   libclang-rt-14-dev     the fuzzers' runtime
bench  libdnnl-dev            the peer of products and convolutions
"

check=0
[ "${1:-}" != --check ] || { check=1; shift; }
wanted=" ${*:-build} "
missing=()
while read -r group package reason; do
    [ -n "$group" ] || continue
    case $wanted in *" $group "*) ;; *) continue ;; esac
    # A node, npm or kubectl of one's own is as good as Debian's.
    case $package in nodejs) command -v node >/dev/null && continue ;;
        npm) command -v npm >/dev/null && continue ;;
        kubernetes-client) command -v kubectl >/dev/null && continue ;; esac
    if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed'; then
        [ $check = 0 ] || exit 1
        [ ${#missing[@]} -gt 0 ] || echo "Installing what is missing:"
        printf '  %-22s %s\n' "$package" "$reason"
        missing+=("$package")
    fi
done <<<"$table"
[ ${#missing[@]} -gt 0 ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
        echo "Run as root: apt-get install ${missing[*]}" >&2
        exit 1
    }
    sudo=sudo
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Runs apt-get, and waits up to `patience` seconds for another apt to end: fresh machines
# run one at boot. The option waits for the lock of dpkg alone, so that a lock of
# lists or archives is tried again here.
patience=120
apt_get() {
    local end=$((SECONDS + patience))
    until $sudo env LC_ALL=C apt-get -o DPkg::Lock::Timeout=$patience "$@" >"$log" 2>&1; do
        if ! grep -q 'Could not get lock' "$log" || [ $SECONDS -ge $end ]; then
            return 1
        fi
        echo "Another apt is running; waiting for it up to $((end - SECONDS)) s."
        sleep 5
    done
}

if ! { apt_get update && apt_get install -y --no-install-recommends "${missing[@]}"; }; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install: ${missing[*]}" >&2
    exit 1
fi
