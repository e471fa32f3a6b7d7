#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [--sanitize LIST] [--long] [--build DIR] [ctest options] - builds with
# assertions on and runs all tests.
#   --sanitize address,undefined | thread    builds with that sanitizer
#   --long                                   junk for 60 s, all tests of recovery and checkpoints with etcd, too;
#                                            then each fuzzer, and each codec, for 60 s (clang)
# Data for tests is found through PSGD_DATA; without it ../shared/data is used
# if it is there, else the tests that need real data say so and are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

sanitize= build= long=0
rest=()
while [ $# -gt 0 ]; do
    case $1 in
    --sanitize) sanitize=${2:?--sanitize needs a value}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --long) long=1; shift ;;
    -h | --help) sed -n '3,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) rest+=("$1"); shift ;;
    esac
done
build=${build:-build/test${sanitize:+-${sanitize//,/-}}}

configure() {
    cmake -G Ninja -B "$build" -S . -DCMAKE_BUILD_TYPE="$([ -n "$sanitize" ] && echo Debug || echo Release)" \
        -DSANITIZE="$sanitize" -DPSGD_TESTS="$1" >/dev/null
}
./deploy/packages.sh build
if ! ./deploy/packages.sh --check test; then # these are many: the programs are built meanwhile
    configure OFF
    ninja -C "$build" --quiet &
    programs=$!
    ./deploy/packages.sh test || { kill $programs; exit 1; }
    wait $programs
fi
if [ -z "${PSGD_DATA:-}" ] && [ -d ../shared/data ]; then
    PSGD_DATA=$(cd ../shared/data && pwd)
    export PSGD_DATA
fi
export PSGD_TEST_LONG=$long
# libgrpc is not built for ThreadSanitizer, which without this reports its atomics.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 ${TSAN_OPTIONS:-}"

configure ON
ninja -C "$build" --quiet
# Seven places for two processors; tests/order.cmake says how many of them a test takes.
ctest --test-dir "$build" --parallel "$((7 * $(nproc) / 2))" --output-on-failure --no-tests=error "${rest[@]}"
[ "$long" = 1 ] || exit 0

./deploy/packages.sh fuzz
cmake -G Ninja -B build/fuzz -S . -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug \
    -DSANITIZE=address,undefined,fuzzer-no-link >/dev/null
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    ninja -C build/fuzz --quiet "$name"
    mkdir -p "build/fuzz/corpus/$name"
    echo "$name, 60 s"
    seeds=tests/fuzz/corpus/$name # what is known to get far; new finds go to the build's own
    [ -d "$seeds" ] || seeds=
    "build/fuzz/bin/$name" -max_total_time=60 -verbosity=0 "build/fuzz/corpus/$name" ${seeds:+"$seeds"}
    [ "$name" = fuzz_codec ] || continue
    for codec in $(sed -n 's/^PS_CODEC(\(.*\))$/\1/p' common/codec/list.h); do
        mkdir -p "build/fuzz/corpus/$name-$codec"
        echo "$name, $codec, 60 s"
        PSGD_FUZZ_CODEC=$codec "build/fuzz/bin/$name" -max_total_time=60 -verbosity=0 \
            "build/fuzz/corpus/$name-$codec"
    done
done
