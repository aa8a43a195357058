/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that do not go together, in words: the same ones whoever compares them. */
#ifndef TS_COMM_WORDING_H
#define TS_COMM_WORDING_H

#include <tessera/ext/backend.h>

enum { TS_SAID_BYTES = 360 }; /* of ts_said.text are read */

/* What a rank has called. */
typedef struct ts_said {
    int rank, root; /* global ones; what came from elsewhere may be anything */
    ts_collective op;
    ts_dtype dtype;
    ts_reduce_op reduce;
    ts_shape shape;
    int64_t count;        /* elements of all parts, or of the tensor */
    uint64_t parts;       /* a hash of the parts' counts, which tells lists of the same sum apart */
    bool in_pairs;        /* sizes disagree in pairs: */
    int64_t gives, takes; /*   elements, over all ranks */
    ts_status status;     /* of the arguments */
    const char *text;     /* what is bad about them, or where the call is; "": not known */
} ts_said;

/* "rank 2 came with bad arguments: ..." if one did, else "ranks disagree on the dtype: ranks {0,1}
 * call all_reduce SUM of float32 (4,) at train.c:42 in step; ranks {2} call ..." */
void ts_word_verdict(char *text, size_t size, const ts_said *said, int n);

#define TS_WORD_PAIRS "what one rank gives another, that one must take: sizes must agree in pairs"

#endif
