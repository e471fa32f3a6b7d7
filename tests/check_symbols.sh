#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_symbols.sh LIBRARY HEADER - fails unless the library exports the functions of the header and no others, each with a version.
set -eu
declared=$(sed -n 's/^[a-z].*[ *]\(psgd_[a-z_]*\)(.*/\1/p' "$2" | sort)
exported=$(nm -D --defined-only --with-symbol-versions "$1" | sed -n 's/^[0-9a-f]* T \([^@]*\)@@PSGD_.*/\1/p' | sort)
all=$(nm -D --defined-only "$1" | awk '$2 != "A" {sub("@.*", "", $3); print $3}' | sort)
[ -n "$declared" ] || { echo "no function in $2" >&2; exit 1; }
if [ "$declared" != "$exported" ] || [ "$declared" != "$all" ]; then
    printf 'declared:\n%s\nexported with a version:\n%s\nexported:\n%s\n' "$declared" "$exported" "$all" >&2
    exit 1
fi
needed=$(objdump -p "$1" | sed -n 's/^ *NEEDED *//p' | grep -vE '^(libprotobuf-c|liblz4|libzstd|libm|libc|lib[a-z]+san|ld-linux.*)\.so' || true)
[ -z "$needed" ] || { printf 'a program that uses codecs alone should not need:\n%s\n' "$needed" >&2; exit 1; }
