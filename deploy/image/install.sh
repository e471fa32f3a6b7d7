#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh - makes the image's content of the system that it runs in: a Debian with lists of packages, and
# psgd's packages in /debs. Removes what a container does not need.
set -eu
user=15386 # has a number of its own: some clusters ask for a number to see that it is not root
groupadd --system --gid $user psgd
useradd --system --uid $user --gid $user --home-dir /var/lib/psgd --shell /usr/sbin/nologin psgd
# The recommended libmicrohttpd12 serves --ops and --web, libcurl4 calls trackers.
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /debs/psgd*.deb libmicrohttpd12 libcurl4 systemd-standalone-sysusers
install -d -m 0700 -o $user -g $user /var/lib/psgd
install -m 0755 "$(dirname "$0")/psgd-role" "$(dirname "$0")/psgd-certify" /usr/bin
find /usr/share/doc -type f ! -name copyright -delete
rm -rf /usr/share/man /usr/share/locale /usr/share/info /usr/share/lintian /var/lib/apt/lists /var/log/* /var/cache/* \
    /usr/share/bash-completion/completions /usr/share/zsh /tmp/*
