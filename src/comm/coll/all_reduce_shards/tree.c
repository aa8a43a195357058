/* SPDX-License-Identifier: Apache-2.0 */
/* Sums along a fixed tree over virtual shards. */
#include "comm/coll/all_reduce_shards/tree.h"

#include "kernels/combine.h"
#include "kernels/convert.h"
#include "tensor/tensor.h"

int ts_tree_height(int64_t shards)
{
    int level = 0;
    while (level < 62 && (INT64_C(1) << level) < shards) level++;
    return level;
}

int ts_tree_cover(ts_tree_node node[TS_TREE_NODES], int64_t begin, int64_t end, int64_t shards)
{
    int n = 0, height = ts_tree_height(shards);
    while (begin < end) {
        int level = 0;
        while (level < height) {
            int64_t width = INT64_C(2) << level;
            if (begin % width != 0 || (begin + width > end && end < shards)) break;
            level++;
        }
        node[n++] = (ts_tree_node){level, begin >> level};
        begin += INT64_C(1) << level;
    }
    return n;
}

ts_dtype ts_tree_dtype(ts_dtype dtype)
{
    return dtype == TS_FLOAT16 || dtype == TS_BFLOAT16 ? TS_FLOAT32 : dtype;
}

static ts_tree_node left(ts_tree_node node)
{
    return (ts_tree_node){node.level - 1, 2 * node.index};
}

static ts_tree_node right(ts_tree_node node)
{
    return (ts_tree_node){node.level - 1, 2 * node.index + 1};
}

static bool is_empty(const ts_tree *tree, ts_tree_node node)
{
    return node.index << node.level >= tree->shards;
}

static void combine(const ts_tree *tree, void *to, const void *a, const void *b, int64_t count)
{
    const void *const pair[2] = {a, b};
    ts_combine(to, pair, 2, count, tree->dtype, tree->op == TS_AVG ? TS_SUM : tree->op);
}

/* ---- shards held here ------------------------------------------------------------------------ */

static const void *leaf(const ts_tree *tree, int64_t shard, void *room, int64_t begin,
                        int64_t count)
{
    const char *data = tree->shard[shard - tree->first];
    data += (size_t)begin * ts_element_size(tree->from);
    if (tree->from == tree->dtype) return data;
    ts_kernel_convert(tree->dtype, tree->from)(room, data, count);
    return room;
}

/* Where the value of the node beside one of this level goes. */
static char *beside(const ts_tree *tree, int level)
{
    return tree->scratch + (size_t)level * TS_TREE_BLOCK * ts_element_size(tree->dtype);
}

const void *ts_tree_leaves(const ts_tree *tree, ts_tree_node node, void *room, int64_t begin,
                           int64_t count)
{
    if (node.level == 0) return leaf(tree, node.index, room, begin, count);
    const void *a = ts_tree_leaves(tree, left(node), room, begin, count);
    if (is_empty(tree, right(node))) return a;
    char *other = beside(tree, node.level - 1);
    const void *b = ts_tree_leaves(tree, right(node), other, begin, count);
    combine(tree, room, a, b, count);
    return room;
}

/* ---- nodes of all ranks ---------------------------------------------------------------------- */

typedef struct cursor {
    const ts_tree *tree;
    const ts_tree_node *node; /* the next one */
    const void *const *value;
    int64_t count;
} cursor;

static const void *climb(cursor *c, ts_tree_node node, void *room)
{
    if (c->node->level == node.level && c->node->index == node.index) {
        c->node++;
        return *c->value++;
    }
    const void *a = climb(c, left(node), room);
    if (is_empty(c->tree, right(node))) return a;
    const void *b = climb(c, right(node), beside(c->tree, node.level - 1));
    combine(c->tree, room, a, b, c->count);
    return room;
}

const void *ts_tree_root(const ts_tree *tree, const ts_tree_node *node, const void *const *value,
                         int64_t count)
{
    cursor c = {tree, node, value, count};
    int height = ts_tree_height(tree->shards);
    return climb(&c, (ts_tree_node){height, 0}, beside(tree, height));
}

/* ---- average --------------------------------------------------------------------------------- */

void ts_tree_average(const ts_tree *tree, void *value, int64_t count)
{
    ts_combine_divide(value, count, tree->dtype, tree->shards);
}
