#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kubectl.sh FOLDER - unpacks Debian's kubectl there, once, beside any other one that is installed.
set -eu
[ ! -x "$1/usr/bin/kubectl" ] || exit 0
mkdir -p "$1"
cd "$1"
apt-get download -qq kubernetes-client 2>/dev/null
dpkg-deb -x kubernetes-client_*.deb .
rm kubernetes-client_*.deb
