/* SPDX-License-Identifier: Apache-2.0 */
/* A hash set of nodes in order of discovery, and the depth-first walk over a graph without
 * recursion. */
#include "autograd/autograd_impl.h"

#include <stdlib.h>

#include "base/memory.h"

static int64_t place_of(const ts_visits *visits, const ts_node *node)
{
    uint64_t hash = (uint64_t)(uintptr_t)node * 0x9e3779b97f4a7c15u;
    int64_t at = (int64_t)(hash >> 20) & (visits->buckets - 1);
    while (visits->bucket[at] && visits->visit[visits->bucket[at] - 1].node != node)
        at = (at + 1) & (visits->buckets - 1);
    return at;
}

int64_t ts_visits_find(const ts_visits *visits, const ts_node *node)
{
    return visits->buckets ? visits->bucket[place_of(visits, node)] - 1 : -1;
}

static bool grow(ts_visits *visits)
{
    int64_t capacity = visits->capacity ? 2 * visits->capacity : 64;
    ts_visit *visit = ts_grow(visits->visit, (size_t)capacity, sizeof *visit);
    if (visit) visits->visit = visit;
    int64_t *bucket = ts_calloc((size_t)(2 * capacity), sizeof *bucket);
    if (!visit || !bucket) {
        free(bucket);
        return false;
    }
    free(visits->bucket);
    visits->bucket = bucket;
    visits->capacity = capacity;
    visits->buckets = 2 * capacity;
    for (int64_t i = 0; i < visits->count; i++) bucket[place_of(visits, visit[i].node)] = i + 1;
    return true;
}

int64_t ts_visits_add(ts_visits *visits, ts_node *node, bool *added)
{
    int64_t found = ts_visits_find(visits, node);
    *added = found < 0;
    if (found >= 0) return found;
    if (visits->count == visits->capacity && !grow(visits)) {
        ts_fail_memory((size_t)visits->count * sizeof(ts_visit), "the nodes of a backward pass");
        return -1;
    }
    ts_visit *visit = &visits->visit[visits->count];
    *visit = (ts_visit){.node = node};
    if (node->num_out > TS_VISIT_FEW_SLOTS) {
        visit->many = ts_calloc((size_t)node->num_out, sizeof *visit->many);
        if (!visit->many) {
            ts_fail_memory((size_t)node->num_out * sizeof *visit->many, "gradients");
            return -1;
        }
    }
    visits->bucket[place_of(visits, node)] = ++visits->count;
    return visits->count - 1;
}

void ts_visits_fini(ts_visits *visits)
{
    for (int64_t i = 0; i < visits->count; i++) {
        ts_visit *visit = &visits->visit[i];
        int slots = visit->many ? visit->node->num_out : TS_VISIT_FEW_SLOTS;
        for (int k = 0; k < slots; k++) ts_release(ts_visit_grad(visit)[k]);
        free(visit->many);
    }
    free(visits->visit);
    free(visits->bucket);
    *visits = (ts_visits){0};
}

/* One level of the walk: a node and the edge to follow next. */
typedef struct level {
    int64_t index;
    int edge;
} level;

typedef struct stack {
    level *level;
    int64_t count, capacity;
} stack;

static ts_status push(stack *s, int64_t index)
{
    if (s->count == s->capacity) {
        int64_t capacity = s->capacity ? 2 * s->capacity : 64;
        level *grown = ts_grow(s->level, (size_t)capacity, sizeof *grown);
        if (!grown) return ts_fail_memory((size_t)capacity * sizeof *grown, "a walk of the graph");
        s->level = grown;
        s->capacity = capacity;
    }
    s->level[s->count++] = (level){index, 0};
    return TS_OK;
}

static ts_status step(ts_visits *visits, stack *s, ts_visit_finish finish, void *user)
{
    level *top = &s->level[s->count - 1];
    ts_node *node = visits->visit[top->index].node;
    if (top->edge == node->num_edges) {
        if (finish) finish(visits, top->index, user);
        s->count--;
        return TS_OK;
    }
    ts_node *next = node->edge[top->edge++].node;
    if (!next) return TS_OK;
    bool added;
    int64_t index = ts_visits_add(visits, next, &added);
    if (index < 0) return TS_ENOMEM;
    return added ? push(s, index) : TS_OK;
}

ts_status ts_visits_walk(ts_visits *visits, ts_node *root, ts_visit_finish finish, void *user)
{
    stack s = {0};
    bool added;
    int64_t index = ts_visits_add(visits, root, &added);
    if (index < 0) return TS_ENOMEM;
    ts_status status = added ? push(&s, index) : TS_OK;
    while (status == TS_OK && s.count > 0) status = step(visits, &s, finish, user);
    free(s.level);
    return status;
}
