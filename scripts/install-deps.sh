#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that building and testing needs, and does nothing when they are
# there.  This is the one list of dependencies.
set -eu

packages="
gcc
libc6-dev
make
cmake
ninja-build
pkg-config
python3
libopenblas0-pthread
libuv1-dev
libopenmpi-dev
openmpi-bin
libmpich-dev
mpich
libpmix-dev
libcbor-dev
libcjson-dev
zlib1g-dev
libdw-dev
libdw1
libssl-dev
iproute2
"

missing=
for package in $packages; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "installing:$missing"
sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "run as root: apt-get install$missing" >&2; exit 1; }
    sudo=sudo
fi
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
