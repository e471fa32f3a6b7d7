#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pages.sh PROGRAM FOLDER - writes the manual page of PROGRAM into FOLDER, made of its --help, and of
# psgd one for each command, such as psgd-submit.1.gz.
set -euo pipefail
program=$1 folder=$2
name=$(basename "$program")
version=$("$program" --version | sed -n '1s/.* //p')

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# page TITLE COMMAND... - writes TITLE.1.gz. The first sentence of the summary is the page's name.
page() {
    local title=$1 what
    shift
    "$@" --help >"$work/help"
    what=$(sed -n '3,/^$/p' "$work/help" | tr '\n' ' ' | sed -e 's/\. .*//' -e 's/[.: ]*$//')
    what=$(tr '[:upper:]' '[:lower:]' <<<"${what:0:1}")${what:1}
    printf '#!/bin/sh\ncat "%s/help"\n' "$work" >"$work/$title" # help2man names the page after it
    chmod +x "$work/$title"
    help2man --no-info --no-discard-stderr --version-string="$version" --source="psgd $version" \
        --manual=psgd --name="$what" "$work/$title" |
        sed "s/^\.TH .*/.TH ${title^^} 1 \"\" \"psgd $version\" \"psgd\"/" |
        gzip -9n >"$folder/$title.1.gz"
}

page "$name" "$program"
[ "$name" = psgd ] || exit 0
"$program" --help | sed -n '/^Commands:/,/\./p' | tr '\n' ' ' |
    sed -e 's/^Commands: //' -e 's/\..*//' -e 's/,//g' -e 's/  */\n/g' -e 's/$/\n/' |
    while read -r command; do
        [ -z "$command" ] || page "psgd-$command" "$program" "$command"
    done
