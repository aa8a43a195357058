#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles on its own, as strict C11 and as C++.  usage: headers.sh SOURCE-DIR TMP
set -eu
source=$1 tmp=$2
strict="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only -I$source/include"

compile() { # compiler, options, extension
    command -v "$1" >/dev/null || { echo "no $1: not tried"; return 0; }
    for header in "$source"/include/tessera/*.h "$source"/include/tessera/ext/*.h; do
        [ -e "$header" ] || continue
        name=${header#"$source"/include/}
        printf '#include <%s>\n#include <%s>\n' "$name" "$name" >"$tmp/one.$3"
        # shellcheck disable=SC2086
        "$1" $2 $strict "$tmp/one.$3"
    done
}

compile cc "-std=c11 -Wstrict-prototypes" c
compile clang "-std=c11" c
compile c++ "-std=c++11" cc

# The macros too: shapes and options in both languages.
cat >"$tmp/use.c" <<'END'
#include <tessera/tessera.h>
int main(void)
{
    ts_shape s = TS_SHAPE(2, 3);
    ts_ddp_options d = TS_DDP_OPTIONS_INIT;
    ts_init_options i = TS_INIT_OPTIONS_INIT;
    ts_adamw_options a = TS_ADAMW_OPTIONS_INIT;
    ts_tensor_options t = TS_TENSOR_OPTIONS_INIT;
    ts_tcp_store_options c = TS_TCP_STORE_OPTIONS_INIT;
    ts_gpt_options g = TS_GPT_OPTIONS_INIT;
    return s.ndim == 2 && d.broadcast_buffers && i.rank == -1 && a.lr > 0 && c.port == 29500 &&
                   g.n_layer == 4 && t.dtype == TS_FLOAT32
               ? 0
               : 1;
}
END
cp "$tmp/use.c" "$tmp/use.cc"
cc -std=c11 $strict "$tmp/use.c"
if command -v c++ >/dev/null; then c++ -std=c++11 $strict -Wno-missing-field-initializers "$tmp/use.cc"; fi
