#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quickstart.sh [--keep] [--tls] [--workers N] [--pservers N] [--epochs N] - builds psgd,
# starts a small cluster on this machine, trains the tutorial network on it and
# shows what came out.
#   --keep   leaves the services running and says how to stop them
#   --tls    makes an authority and certificates; every link is mutual TLS, and the
#            job is that of a submitter
# Data: the MNIST files in $PSGD_DATA/mnist if set, else a download, else the
# digits that psgd draws itself.
set -euo pipefail
cd "$(dirname "$0")/.."

keep=0 tls=0 workers=2 pservers=2 epochs=2
usage() { sed -n '3,10s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
    --keep) keep=1 ;;
    --tls) tls=1 ;;
    --workers) workers=${2:?--workers needs a number}; shift ;;
    --pservers) pservers=${2:?--pservers needs a number}; shift ;;
    --epochs) epochs=${2:?--epochs needs a number}; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; echo "quickstart.sh: unknown option '$1'" >&2; exit 4 ;;
    esac
    shift
done

./deploy/packages.sh build
echo "Building (build/bin) ..."
cmake -G Ninja -B build -S . -DCMAKE_BUILD_TYPE=Release -DPSGD_TESTS=OFF >/dev/null
ninja -C build --quiet | sed '/no work to do/d'

# --- data ---------------------------------------------------------------------
source deploy/mnist.sh
data=glyphs
if [ -n "${PSGD_DATA:-}" ] && mnist_is_there "$PSGD_DATA/mnist"; then
    data=mnist
    echo "Data: MNIST from $PSGD_DATA/mnist"
elif mnist_download "$PWD/build/data/mnist"; then
    data=mnist
    export PSGD_DATA=$PWD/build/data
    echo "Data: MNIST, downloaded to build/data/mnist"
else
    echo "Data: glyphs, digits drawn by psgd itself (no MNIST in PSGD_DATA, no network)"
fi

# --- the cluster --------------------------------------------------------------
run=$PWD/build/quickstart
pids=()
# What an earlier --keep left running must not lose its files.
if [ -f "$run/pids" ]; then
    for pid in $(cat "$run/pids"); do
        case $(readlink "/proc/$pid/exe" || true) in
        "$PWD"/build/bin/*) pids+=("$pid") ;;
        esac
    done
fi
if [ ${#pids[@]} -gt 0 ]; then
    echo "The services of an earlier quickstart.sh --keep still run. Stop them with:" >&2
    echo "  kill ${pids[*]}" >&2
    exit 1
fi
rm -rf "$run"
mkdir -p "$run"
stop_all() {
    trap - INT TERM EXIT
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
}
trap stop_all EXIT
trap 'echo; echo "Stopping the services, and the job with them."; exit 130' INT TERM

# join PRINCIPAL - makes a member of the authority; sets `flags` to what its program is told. In
# plaintext there is nothing to tell.
flags=()
join() {
    local at=$run/tls/${1/\//-}
    [ "$tls" = 1 ] || return 0
    {
        build/bin/psgd pki request "$1" --host 127.0.0.1 --tls-dir "$at"
        build/bin/psgd pki approve "$at/request.pem" "$1" --pki "$run/pki" --out "$at/answer.pem"
        build/bin/psgd pki install "$at/answer.pem" --tls-dir "$at" --fingerprint "$fingerprint"
    } >"$run/join.log" 2>&1 || { cat "$run/join.log" >&2; exit 1; }
    flags=(--tls-dir "$at")
}
if [ "$tls" = 1 ]; then
    fingerprint=$(build/bin/psgd pki init --pki "$run/pki" | sed -n 's/^fingerprint *//p')
    echo "Made an authority in ${run#"$PWD"/}/pki; every link is TLS."
fi

# start NAME PROGRAM OPTIONS... - sets `address` to where it listens.
start() {
    local name=$1 program=$2 line=
    shift 2
    mkfifo "$run/$name.address"
    "build/bin/$program" --listen 127.0.0.1:0 --data-dir "$run/$name" "$@" \
        >"$run/$name.address" 2>"$run/$name.log" &
    pids+=($!)
    # The line with the address comes, or the end of the file when it dies.
    read -r -t 20 line <"$run/$name.address" || {
        echo "$name did not start:" >&2
        tail -n 5 "$run/$name.log" >&2
        exit 1
    }
    rm "$run/$name.address"
    address=${line##* }
    printf '  %-12s %s\n' "$name" "$address"
}

echo "Starting one coordinator, $pservers parameter servers and $workers workers:"
join coordinator/main
start coordinator psgd-coordinator "${flags[@]}"
coordinator=$address
for ((i = 0; i < pservers; i++)); do
    join "node/ps-$i"
    start "pserver-$i" psgd-pserver --coordinator "$coordinator" --node-id "ps-$i" "${flags[@]}"
done
for ((i = 0; i < workers; i++)); do
    join "node/worker-$i"
    start "worker-$i" psgd-worker --coordinator "$coordinator" --node-id "worker-$i" "${flags[@]}"
done

page=$(sed -n 's,.*page at \(http://[^ ]*\),\1,p' "$run/coordinator.log" | head -n 1)
[ -z "$page" ] || echo "The page: $page"

# --- the job ------------------------------------------------------------------
join submitter/you
psgd="build/bin/psgd --coordinator $coordinator${flags[*]:+ ${flags[*]}}"
status=0
echo
$psgd submit --preset tutorial --data "$data" --workers "$workers" --pservers "$pservers" \
    --epochs "$epochs" --watch || status=$?
job=$($psgd list --limit 1 --format json | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' | head -n 1)
if [ "$status" = 0 ]; then
    echo
    $psgd download "$job" --output "${run#"$PWD"/}/artifacts"
elif [ -n "$job" ]; then
    $psgd logs "$job" | tail -n 20
fi

echo
if [ "$keep" = 1 ]; then
    trap - EXIT INT TERM
    printf '%s\n' "${pids[@]}" >"$run/pids"
    disown -a
    echo "The services go on. Try:"
    echo "  $psgd nodes"
    echo "  $psgd submit --preset tutorial --data $data --codec int8 --watch"
    echo "  $psgd --help"
    echo "Stop them with:"
    echo "  kill ${pids[*]}"
else
    stop_all
    echo "The services are stopped; the files stay in ${run#"$PWD"/}/artifacts."
    echo "To leave the services running and try more: ./deploy/quickstart.sh --keep"
fi
exit "$status"
