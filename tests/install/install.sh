#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a folder of its own and builds a program against it: by pkg-config, shared and static,
# and by the CMake package.  Also: the shared library exports ts_* only, and so does the static one.
# usage: install.sh BUILD-DIR SOURCE-DIR TMP
set -eu
build=$1 source=$2 tmp=$3
cmake --install "$build" --prefix "$tmp/prefix" >/dev/null
pc=$(dirname "$(find "$tmp/prefix" -name tessera.pc)")
lib=$(dirname "$pc")
export PKG_CONFIG_PATH=$pc

# shellcheck disable=SC2046
cc "$source/examples/01_tensors.c" -o "$tmp/shared" $(pkg-config --cflags --libs tessera)
LD_LIBRARY_PATH=$lib "$tmp/shared" | grep -q '^y = 3.00 x -1.00$'
# shellcheck disable=SC2046
cc "$source/examples/01_tensors.c" -o "$tmp/static" $(pkg-config --cflags --libs tessera-static)
env -u LD_LIBRARY_PATH "$tmp/static" | grep -q '^y = 3.00 x -1.00$'

mkdir -p "$tmp/project"
cp "$source/examples/01_tensors.c" "$tmp/project/main.c"
cat >"$tmp/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(user LANGUAGES C)
find_package(tessera 0.1 REQUIRED)
add_executable(user main.c)
target_link_libraries(user tessera::tessera)
add_executable(user_static main.c)
target_link_libraries(user_static tessera::static)
END
cmake -S "$tmp/project" -B "$tmp/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$tmp/prefix" >/dev/null
cmake --build "$tmp/project/build" >/dev/null
"$tmp/project/build/user" >/dev/null
"$tmp/project/build/user_static" >/dev/null

foreign() { grep -v '^ts_' | grep -v '^$' || true; }
[ -z "$(nm -D --defined-only "$lib/libtessera.so" | awk '{print $3}' | foreign)" ] ||
    { echo "libtessera.so exports more than ts_*"; nm -D --defined-only "$lib/libtessera.so" | awk '{print $3}' | foreign; exit 1; }
exported=$(nm -D --defined-only "$lib/libtessera.so" | awk '{print $3}' | sort)
static=$(nm -g --defined-only "$lib/libtessera.a" 2>/dev/null | awk 'NF == 3 {print $3}' | sort)
[ "$exported" = "$static" ] || { echo "the two libraries export different symbols"; exit 1; }
