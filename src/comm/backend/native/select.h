/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm runs.
 *
 * The table select_table.inc, written by `tessera bench coll --tune` (the rows for three and more ranks
 * on several hosts are set from cost formulas, docs/collectives.md), has a row per range of sizes:
 * ROW(operation, hosts, least ranks, most bytes, algorithm, segment).  hosts is ONE (all ranks share
 * memory), TWO, FEW (up to 8) or MANY.  Of the rows for an operation and class of hosts those with
 * the greatest "least ranks" that is not above the group's size count; of these the first whose
 * "most bytes" (0: no limit) is not exceeded.  Bytes are those of the longest tensor: all_reduce,
 * reduce, broadcast: the tensor; others: all parts together.
 *
 * TESSERA_ALGORITHM overrides it: "all_reduce:ring,broadcast:chain:262144" (operation, algorithm,
 * segment).  It must be the same on all ranks.  A size that an algorithm cannot do goes to the next
 * one of the table. */
#ifndef TS_COMM_SELECT_H
#define TS_COMM_SELECT_H

#include <tessera/ext/backend.h>

/* X(id, name) */
#define TS_ALGORITHMS(X)                                                                           \
    X(FLAT, "flat")         /* the data rides with the agreement */                                \
    X(SHM, "shm")           /* in shared memory, in place or through the staging rings */          \
    X(PUSH, "push")         /* the same, and results are stored into the tensors of all */         \
    X(DIRECT, "direct")     /* every message goes straight to who needs it */                      \
    X(TREE, "tree")         /* binomial tree */                                                    \
    X(CHAIN, "chain")       /* one after the other, in segments */                                 \
    X(SCATTER, "scatter")   /* scatter, then all_gather; or reduce_scatter, then gather */         \
    X(DOUBLING, "doubling") /* recursive doubling */                                               \
    X(HALVING, "halving")   /* recursive halving, and doubling back */                             \
    X(RING, "ring")         /* to the next one, round and round */                                 \
    X(PAIRWISE, "pairwise") /* with each of the others in turn */                                  \
    X(BRUCK, "bruck")       /* in log2 steps */

typedef enum ts_algorithm {
#define X(id, name) TS_ALGORITHM_##id,
    TS_ALGORITHMS(X)
#undef X
        TS_NUM_ALGORITHMS
} ts_algorithm;

typedef enum ts_hosts_class {
    TS_HOSTS_ONE,
    TS_HOSTS_TWO,
    TS_HOSTS_FEW,
    TS_HOSTS_MANY
} ts_hosts_class;

typedef struct ts_choice {
    size_t max_bytes;
    ts_algorithm algorithm;
    size_t segment; /* bytes; 0: the algorithm's own */
} ts_choice;

enum { TS_MAX_CHOICES = 8 };
/* By operation; the last one of each has no limit. */
typedef struct ts_selection {
    ts_choice choice[TS_NUM_COLLECTIVES][TS_MAX_CHOICES];
} ts_selection;

void ts_selection_init(ts_selection *s, int ranks, int hosts);
static inline const ts_choice *ts_choose(const ts_selection *s, ts_collective op, size_t bytes)
{
    const ts_choice *c = s->choice[op];
    while (bytes > c->max_bytes) c++;
    return c;
}

const char *ts_algorithm_name(ts_algorithm algorithm);
/* Which algorithms op has with hosts of that class: bits 1 << TS_ALGORITHM_x. */
unsigned ts_algorithms_offered(ts_collective op, ts_hosts_class hosts);
ts_hosts_class ts_hosts_class_of(int hosts);

#endif
