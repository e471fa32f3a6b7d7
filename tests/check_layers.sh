#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_layers.sh ROOT - fails on what the directory map forbids.
#
# First, includes: one line a directory says what its files may include. Then
# the shape of the code: files beyond 800 lines, control flow hidden in macros,
# sleeps, work left undone, two files of one name. A name may occur again where each
# room, program or version has one: CMakeLists.txt, README.md, main.c, list.h.
set -u
cd "$1" || exit 2
bad=0

while read -r dir allowed; do
    [ -d "$dir" ] || continue
    for header in $(grep -rhoE '^#include [<"](common|services|clients|grpc|protobuf-c|psgd|google|cblas|openssl|lua|lauxlib|lualib|seccomp|onnx|tensorboard|sqlite3|etcd|curl)[^>"]*' "$dir" |
        sed 's/^#include .//' | sort -u); do
        ok=0
        for a in $allowed; do
            case $header in $a*) ok=1 ;; esac
        done
        if [ $ok = 0 ]; then
            echo "$dir may not include $header" >&2
            grep -rlE "^#include [<\"]$header" "$dir" | sed 's/^/    /' >&2
            bad=1
        fi
    done
done <<'MAP'
common/base          common/base/ openssl/
common/codec         common/base/ common/codec/ psgd/v1/codec protobuf-c/
common/optim         common/base/ common/optim/
common/trace         common/base/ common/trace/
common/nn            common/base/ common/trace/ common/nn/ cblas
common/metric        common/base/ common/metric/ common/nn/targets
common/data          common/base/ common/data/
common/artifact      common/base/ common/nn/ common/artifact/ onnx/ tensorboard/
common/consistency   common/base/ common/consistency/
common/straggler     common/base/ common/straggler/
common/update        common/base/ common/update/
common/script        common/base/ common/codec/ common/consistency/consistency common/data/transform common/metric/ common/optim/schedule common/script/ psgd/v1/codec protobuf-c/
common/sandbox       common/base/ common/codec/ common/script/sandbox_protocol common/script/record common/sandbox/ lua.h lauxlib.h lualib.h seccomp.h
common/pki           common/base/ common/pki/ openssl/
common/rpc           common/base/ common/pki/ common/rpc/ grpc/ protobuf-c/ google/ openssl/
common/ops           common/base/ common/pki/ common/rpc/ common/ops/ microhttpd.h gnutls/
common/job           common/base/ common/codec/ common/optim/ common/nn/ common/metric/ common/data/ common/consistency/ common/straggler/ common/update/ common/mesh/ common/job/ common/script/script common/script/result common/script/executor common/script/sandbox_protocol common/rpc/pbjson common/rpc/error psgd/ protobuf-c/
common/tracker       common/base/ common/job/tracker_url common/rpc/pbjson common/tracker/ psgd/ protobuf-c/ curl/
common/explain       common/base/ common/codec/codec_cost common/script/script_check common/explain/ psgd/ protobuf-c/
common/placement     common/base/ common/job/layout common/placement/
common/store         common/base/ common/trace/ common/codec/ common/optim/ common/consistency/ common/store/ psgd/v1/codec protobuf-c/
common/mesh      common/base/ common/codec/ common/data/ common/mesh/ psgd/v1/codec protobuf-c/
common/train         common/base/ common/trace/ common/nn/ common/metric/ common/data/ common/artifact/ common/optim/ common/update/ common/mesh/ common/codec/ common/consistency/ common/store/ common/job/ common/placement/ common/train/ psgd/ protobuf-c/
common/inprocess     common/base/ common/trace/ common/nn/ common/metric/ common/data/ common/artifact/ common/optim/ common/update/ common/mesh/ common/codec/ common/consistency/ common/straggler/ common/store/ common/job/ common/placement/ common/train/ common/wire/ common/inprocess/ common/rpc/pbjson psgd/ protobuf-c/ google/
common/node          common/ psgd/ protobuf-c/
common/wire          common/base/ common/trace/ common/codec/ common/optim/ common/rpc/ common/job/ common/placement/ common/store/ common/train/ common/wire/ psgd/ protobuf-c/
services/coordinator common/ services/coordinator/ psgd/ protobuf-c/ google/ sqlite3.h etcd/
services/coordinator/domain common/base/ common/pki/principal services/coordinator/domain/ psgd/ protobuf-c/ google/
services/coordinator/io     common/ services/coordinator/domain/ services/coordinator/io/ psgd/ protobuf-c/ google/ sqlite3.h etcd/
services/coordinator/api    common/ services/coordinator/ psgd/ protobuf-c/ google/
services/pserver     common/ services/pserver/ psgd/ protobuf-c/
services/worker      common/ services/worker/ psgd/ protobuf-c/
clients/lib          common/base/ common/codec/ clients/lib/ psgd/v1/codec protobuf-c/
clients/psgd         common/base/ common/pki/ common/rpc/ common/artifact/report_csv common/artifact/weights common/script/sandbox_protocol common/job/ common/train/evaluation common/inprocess/inprocess.h common/inprocess/inprocess_compute.h common/codec/codec_cost common/script/script_check common/explain/ common/tracker/ clients/lib/psgd.h clients/psgd/ psgd/ protobuf-c/ google/
MAP

report() { # what, lines found
    if [ -n "$2" ]; then
        printf '%s\n%s\n' "$1" "$2" >&2
        bad=1
    fi
}
code=$(git ls-files '*.c' '*.h' 2>/dev/null || find . -name '*.[ch]')
sources=$(git ls-files '*.py' '*.js' '*.html' '*.css' '*.proto' 2>/dev/null)
report "longer than 800 lines:" \
    "$(printf '%s\n' $code $sources | xargs wc -l | awk '$2 != "total" && $1 > 800 {print "    " $2 ": " $1}')"
report "control flow in a macro:" \
    "$(grep -nE '^[[:space:]]*#define.*\b(return|goto|break|continue)\b' $code | sed 's/^/    /')"
report "a sleep:" \
    "$(grep -nE '\b(u|nano)?sleep\(' $code | sed 's/^/    /')"
report "work left undone:" \
    "$(grep -nE '\b(TODO|FIXME|XXX)\b' $code | sed 's/^/    /')"
report "a base name that two files have:" \
    "$({ git ls-files 2>/dev/null || find clients common docs proto services tests -type f; } | sort -u | grep -v "^tests/fuzz/corpus/" | sed 's,.*/,,' | sort | uniq -d |
        grep -vxE 'CMakeLists\.txt|README\.md|main\.c|list\.h|reflection\.proto|kustomization\.yaml' | sed 's/^/    /')"
report "no licence line:" \
    "$(grep -LE 'SPDX-License-Identifier: Apache-2.0' $code | sed 's/^/    /')"
exit $bad
