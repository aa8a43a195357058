/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of objects.  All ranks first exchange what they call and how many bytes they bring,
 * then the bytes.  A rank on which something is wrong enters the next exchange with a failed tensor,
 * and so tells the others why. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/debug.h>
#include <tessera/objects.h>

#include "base/log.h"
#include "base/settings.h"
#include "comm/group_impl.h"
#include "comm/objects_impl.h"

/* ---- also for messages ----------------------------------------------------------------------- */

ts_status ts_objects_add(int64_t *total, int64_t bytes, const char *op)
{
    int64_t limit = ts_setting_int(TS_SETTING_OBJECT_LIMIT);
    if (bytes < 0) return ts_fail(TS_EFORMAT, "%s: a length of %" PRId64 " bytes", op, bytes);
    if (bytes > limit || *total > limit - bytes)
        return ts_fail(TS_ENOMEM,
                       "%s: %" PRId64 " bytes or more would arrive, but TESSERA_OBJECT_LIMIT is "
                       "%" PRId64,
                       op, *total > INT64_MAX - bytes ? INT64_MAX : *total + bytes, limit);
    *total += bytes;
    return TS_OK;
}

ts_tensor *ts_objects_tensor(void *data, int64_t bytes)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_UINT8;
    return ts_wrap(data, TS_SHAPE(bytes), &opt, NULL, NULL);
}

/* FNV-1a. */
static uint64_t hash_of(const void *data, size_t size)
{
    const unsigned char *byte = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static void log_payload(const char *what, int64_t n, const void *data, size_t size)
{
    if (ts_get_debug_level() < TS_DEBUG_DETAIL || !ts_log_enabled(TS_LOG_COMM, TS_LEVEL_INFO))
        return;
    TS_LOG(TS_LOG_COMM, TS_LEVEL_INFO, "objects %s: %" PRId64 " in %zu bytes, hash %016" PRIx64,
           what, n, size, hash_of(data, size));
}

ts_status ts_objects_encode(const ts_object *const *list, int64_t n, void **data, size_t *size)
{
    TS_TRY(ts_object_encode_list(list, n, data, size));
    log_payload("encoded", n, *data, *size);
    return TS_OK;
}

ts_status ts_objects_decode(ts_object **list, int64_t n, const void *data, int64_t bytes)
{
    if (bytes > 0) log_payload("to decode", n, data, (size_t)bytes);
    if (bytes > 0) return ts_object_decode_list(list, n, data, (size_t)bytes);
    for (int64_t i = 0; i < n; i++) list[i] = ts_object_null();
    return TS_OK;
}

/* ---- what a call has at hand ----------------------------------------------------------------- */

typedef enum kind { BROADCAST, ALL_GATHER, GATHER, SCATTER } kind;
static const char *const names[] = {"broadcast_object_list", "all_gather_object", "gather_object",
                                    "scatter_object_list"};

/* What a rank says first: three numbers, which ride along with the call's own header. */
typedef struct header {
    int32_t kind, root; /* root: 0 where there is none */
    int64_t n;          /* objects of the root, where all must know */
    int64_t bytes;      /* that this rank brings */
} header;
enum { WORDS = sizeof(header) / sizeof(int64_t) };

typedef struct exchange {
    ts_group *group;
    const char *name, *called_before;
    ts_scope scope;
    header own, *all;
    void *data;       /* the encoded objects of this rank, or NULL */
    void **piece;     /* the same, one per rank, when they are scattered */
    int64_t *length;  /* of each piece */
    char *received;   /* those of the others */
    ts_tensor **part; /* one per rank */
} exchange;

static ts_status begin(exchange *e, ts_group *group, kind what, const void *site)
{
    memset(e, 0, sizeof *e);
    e->name = names[what];
    e->own.kind = what;
    TS_TRY(ts_group_find(&e->group, group, e->name));
    e->scope = ts_scope_begin();
    e->called_before = ts_called_begin(e->name, site);
    return TS_OK;
}

static ts_status end(exchange *e, ts_status status)
{
    for (int q = 0; e->piece && q < e->group->size; q++) free(e->piece[q]);
    free(e->piece);
    free(e->length);
    free(e->all);
    free(e->data);
    free(e->received);
    free(e->part);
    ts_called_end(e->called_before);
    ts_scope_end(e->scope);
    return status;
}

static ts_status check_root(exchange *e, int root)
{
    e->own.root = ts_group_local(e->group, root);
    if (e->own.root >= 0) return TS_OK;
    return ts_fail(TS_EINVAL, "%s: rank %d is not a member of group '%s'", e->name, root,
                   e->group->name);
}

static bool is_root(const exchange *e) { return e->own.root == e->group->rank; }

/* A list with an entry for each rank. */
static ts_status check_list(const exchange *e, const void *list, int n)
{
    if (list && n == e->group->size) return TS_OK;
    return ts_fail(TS_EINVAL, "%s: the list has %d entries, but the group %d ranks", e->name,
                   list ? n : 0, e->group->size);
}

static ts_status encode(exchange *e, const ts_object *const *list, int64_t n)
{
    size_t size;
    TS_TRY(ts_objects_encode(list, n, &e->data, &size));
    e->own.bytes = (int64_t)size;
    return TS_OK;
}

/* ---- the first exchange ---------------------------------------------------------------------- */

static ts_tensor *words(void *data, int64_t n)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    return ts_wrap(data, TS_SHAPE(n), &opt, NULL, NULL);
}

static ts_status compare(const exchange *e)
{
    const header *a = &e->all[0];
    for (int q = 1; q < e->group->size; q++) {
        const header *b = &e->all[q];
        if (a->kind == b->kind && a->root == b->root && a->n == b->n) continue;
        bool known = b->kind >= BROADCAST && b->kind <= SCATTER;
        return ts_fail(
            TS_EMISMATCH,
            "objects: ranks of group '%s' disagree: rank 0 calls %s with root %d and %lld "
            "objects, rank %d %s with root %d and %lld",
            e->group->name, names[a->kind], a->root, (long long)a->n, q,
            known ? names[b->kind] : "something else", b->root, (long long)b->n);
    }
    return TS_OK;
}

/* status: how it went on this rank so far. */
static ts_status agree(exchange *e, ts_status status)
{
    size_t size = (size_t)e->group->size;
    if (status == TS_OK) {
        e->all = ts_calloc(size, sizeof *e->all);
        e->part = ts_calloc(size, sizeof *e->part);
        if (!e->all || !e->part) status = ts_fail_memory(size * sizeof *e->all, e->name);
    }
    ts_tensor *in = status == TS_OK ? words(&e->own, WORDS) : ts_fail_tensor_last(status);
    ts_tensor *all = status == TS_OK ? words(e->all, WORDS * e->group->size) : NULL;
    TS_TRY(ts_all_gather_into_tensor(e->group, all, in, NULL));
    return compare(e);
}

/* ---- the bytes ------------------------------------------------------------------------------- */

/* Room for the bytes of ranks [first, last], part[] on top of it. */
static ts_status make_room(exchange *e, int first, int last)
{
    int64_t total = 0;
    for (int q = first; q <= last; q++) TS_TRY(ts_objects_add(&total, e->all[q].bytes, e->name));
    e->received = malloc((size_t)total + 1);
    if (!e->received) return ts_fail_memory((size_t)total, e->name);
    char *at = e->received;
    for (int q = first; q <= last; q++) {
        e->part[q] = ts_objects_tensor(at, e->all[q].bytes);
        at += e->all[q].bytes;
    }
    return TS_OK;
}

static ts_tensor *own_bytes(const exchange *e, ts_status status)
{
    return status == TS_OK ? ts_objects_tensor(e->data, e->own.bytes) : ts_fail_tensor_last(status);
}

/* One object of every rank: all or nothing. */
static ts_status decode_each(const exchange *e, ts_object **list)
{
    int size = e->group->size, q = 0;
    const char *at = e->received;
    ts_status status = TS_OK;
    ts_object **object = ts_calloc((size_t)size, sizeof *object);
    if (!object) return ts_fail_memory((size_t)size * sizeof *object, e->name);
    for (; q < size && status == TS_OK; q++) {
        status = ts_objects_decode(&object[q], 1, at, e->all[q].bytes);
        at += e->all[q].bytes;
    }
    if (status == TS_OK)
        memcpy(list, object, (size_t)size * sizeof *object);
    else
        while (q-- > 0) ts_object_free(object[q]);
    free(object);
    return status;
}

/* ---- broadcast ------------------------------------------------------------------------------- */

static ts_status broadcast(exchange *e, ts_object **list)
{
    int root = e->own.root;
    int64_t n = e->own.n, bytes = e->all[root].bytes;
    ts_status status = is_root(e) ? TS_OK : make_room(e, root, root);
    ts_tensor *data = is_root(e) || status != TS_OK ? own_bytes(e, status) : e->part[root];
    TS_TRY(ts_broadcast(e->group, data, TS_GROUP_RANK(root), NULL));
    return is_root(e) ? TS_OK : ts_objects_decode(list, n, e->received, bytes);
}

ts_status ts_broadcast_object_list(ts_group *group, ts_object **list, int n, int src)
{
    exchange e;
    TS_TRY(begin(&e, group, BROADCAST, TS_CALL_SITE));
    ts_status status = check_root(&e, src);
    if (status == TS_OK && (n < 0 || (n > 0 && !list)))
        status = ts_fail(TS_EINVAL, "%s: the list is %s", e.name, n < 0 ? "negative" : "missing");
    e.own.n = n;
    if (status == TS_OK && is_root(&e)) status = encode(&e, (const ts_object *const *)list, n);
    status = agree(&e, status);
    if (status == TS_OK) status = broadcast(&e, list);
    return end(&e, status);
}

/* ---- gather ---------------------------------------------------------------------------------- */

static ts_status all_gather(exchange *e, ts_object **list)
{
    int size = e->group->size;
    ts_status status = make_room(e, 0, size - 1);
    TS_TRY(ts_all_gather(e->group, e->part, size, own_bytes(e, status), NULL));
    return decode_each(e, list);
}

ts_status ts_all_gather_object(ts_group *group, ts_object **list, int n, const ts_object *object)
{
    exchange e;
    TS_TRY(begin(&e, group, ALL_GATHER, TS_CALL_SITE));
    ts_status status = check_list(&e, list, n);
    if (status == TS_OK) status = encode(&e, &object, 1);
    status = agree(&e, status);
    if (status == TS_OK) status = all_gather(&e, list);
    return end(&e, status);
}

static ts_status gather(exchange *e, ts_object **list)
{
    int size = e->group->size, root = TS_GROUP_RANK(e->own.root);
    if (!is_root(e)) return ts_gather(e->group, own_bytes(e, TS_OK), NULL, 0, root, NULL);
    ts_status status = make_room(e, 0, size - 1);
    TS_TRY(ts_gather(e->group, own_bytes(e, status), e->part, size, root, NULL));
    return decode_each(e, list);
}

ts_status ts_gather_object(ts_group *group, ts_object **list, int n, const ts_object *object,
                           int dst)
{
    exchange e;
    TS_TRY(begin(&e, group, GATHER, TS_CALL_SITE));
    ts_status status = check_root(&e, dst);
    if (status == TS_OK && is_root(&e)) status = check_list(&e, list, n);
    if (status == TS_OK && !is_root(&e) && (list || n != 0))
        status = ts_fail(TS_EINVAL, "%s: a list on rank %d, which is not the destination", e.name,
                         e.group->rank);
    if (status == TS_OK) status = encode(&e, &object, 1);
    status = agree(&e, status);
    if (status == TS_OK) status = gather(&e, list);
    return end(&e, status);
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* The root's objects one by one, and their lengths. */
static ts_status encode_pieces(exchange *e, ts_object *const *list)
{
    size_t size, ranks = (size_t)e->group->size;
    e->piece = ts_calloc(ranks, sizeof *e->piece);
    e->length = ts_calloc(ranks, sizeof *e->length);
    if (!e->piece || !e->length) return ts_fail_memory(ranks * sizeof *e->piece, e->name);
    for (int q = 0; q < e->group->size; q++) {
        const ts_object *object = list[q];
        TS_TRY(ts_objects_encode(&object, 1, &e->piece[q], &size));
        e->length[q] = (int64_t)size;
    }
    return TS_OK;
}

/* out gets part[rank] of the root. */
static ts_status scatter_parts(exchange *e, ts_tensor *out)
{
    bool root = is_root(e);
    return ts_scatter(e->group, out, root ? e->part : NULL, root ? e->group->size : 0,
                      TS_GROUP_RANK(e->own.root), NULL);
}

static ts_status scatter(exchange *e, ts_object **out)
{
    int64_t bytes = 0, total = 0;
    int parts = is_root(e) ? e->group->size : 0;
    for (int q = 0; q < parts; q++) e->part[q] = words(&e->length[q], 1);
    TS_TRY(scatter_parts(e, words(&bytes, 1)));
    for (int q = 0; q < parts; q++) e->part[q] = ts_objects_tensor(e->piece[q], e->length[q]);
    ts_status status = ts_objects_add(&total, bytes, e->name);
    if (status == TS_OK && !(e->received = malloc((size_t)bytes + 1)))
        status = ts_fail_memory((size_t)bytes, e->name);
    TS_TRY(scatter_parts(e, status == TS_OK ? ts_objects_tensor(e->received, bytes)
                                            : ts_fail_tensor_last(status)));
    return ts_objects_decode(out, 1, e->received, bytes);
}

ts_status ts_scatter_object_list(ts_group *group, ts_object **out, ts_object *const *list, int n,
                                 int src)
{
    exchange e;
    TS_TRY(begin(&e, group, SCATTER, TS_CALL_SITE));
    ts_status status = check_root(&e, src);
    if (status == TS_OK && !out) status = ts_fail(TS_EINVAL, "%s: out is missing (NULL)", e.name);
    if (status == TS_OK && is_root(&e)) status = check_list(&e, list, n);
    if (status == TS_OK && is_root(&e)) status = encode_pieces(&e, list);
    status = agree(&e, status);
    if (status == TS_OK) status = scatter(&e, out);
    return end(&e, status);
}
