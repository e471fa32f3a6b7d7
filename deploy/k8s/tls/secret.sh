#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# secret.sh FOLDER SERVERS WORKERS - prints the Secret psgd-tls: the certificates and keys of a coordinator, so many
# servers and workers, and a client. What FOLDER does not have yet is made there by psgd (on PATH), with an authority,
# whose key stays in FOLDER/pki. More nodes later: the same folder, larger numbers.
#   deploy/k8s/tls/secret.sh keys 2 3 | kubectl -n psgd apply -f -
set -eu
if [ $# != 3 ]; then
    echo "Usage: secret.sh FOLDER SERVERS WORKERS" >&2
    exit 4
fi
keys=$1
umask 077
mkdir -p "$keys"
set -- coordinator/main@psgd-coordinator-0-0.psgd admin/client \
    $(i=0; while [ $i -lt "$2" ]; do echo "node/server-$i"; i=$((i + 1)); done) \
    $(i=0; while [ $i -lt "$3" ]; do echo "node/worker-$i"; i=$((i + 1)); done)
"$(dirname "$0")/../../image/psgd-certify" "$keys" "$@" >&2
data() { echo "  $1: $(base64 -w 0 "$2")"; }
printf 'apiVersion: v1\nkind: Secret\nmetadata: {name: psgd-tls}\ntype: Opaque\ndata:\n'
data root.pem "$keys/coordinator-main/root.pem"
for member; do
    name=$(echo "${member%@*}" | tr / -)
    data "$name.pem" "$keys/$name/identity.pem"
done
