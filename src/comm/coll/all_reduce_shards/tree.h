/* SPDX-License-Identifier: Apache-2.0 */
/* The binary tree over V virtual shards, which depends on V alone.
 *
 * Node (level, index) stands for the shards [index * 2^level, (index + 1) * 2^level), as far as
 * there are any; its value is left op right, or left alone if there is no shard to the right.  A rank
 * that holds the shards [begin, end) can compute the nodes that lie wholly among them: at most two
 * per level make up its block. */
#ifndef TS_COMM_SHARDS_TREE_H
#define TS_COMM_SHARDS_TREE_H

#include <tessera/collectives.h>

typedef struct ts_tree_node {
    int level;
    int64_t index;
} ts_tree_node;

enum { TS_TREE_NODES = 128 }; /* no block has more */

/* Level of the root. */
int ts_tree_height(int64_t shards);
/* The largest nodes that make up the block, in order; how many. */
int ts_tree_cover(ts_tree_node node[TS_TREE_NODES], int64_t begin, int64_t end, int64_t shards);

/* What is combined: shards of `from`, in `dtype` (that of the intermediate results). */
typedef struct ts_tree {
    int64_t shards; /* V */
    ts_reduce_op op;
    ts_dtype dtype, from;
    const void *const *shard; /* shard[i] is shard first + i */
    int64_t first;
    char *scratch; /* a block for each level from 0 to that of the root */
} ts_tree;

enum { TS_TREE_BLOCK = 2048 }; /* elements that are combined at once */

/* Result type of the steps: float32 for 16-bit types. */
ts_dtype ts_tree_dtype(ts_dtype dtype);
/* The node's value for elements [begin, begin + count) of the shards held here, count being at most
 * a block.  Returns room, or the elements of a shard where they are the value. */
const void *ts_tree_leaves(const ts_tree *tree, ts_tree_node node, void *room, int64_t begin,
                           int64_t count);
/* The root's value from the nodes that cover the whole tree, in order; value[i] are count elements of
 * node[i], at most a block.  The result lies in scratch, or is one of them. */
const void *ts_tree_root(const ts_tree *tree, const ts_tree_node *node, const void *const *value,
                         int64_t count);
/* Divides by the number of shards: TS_AVG after the sum. */
void ts_tree_average(const ts_tree *tree, void *value, int64_t count);

#endif
