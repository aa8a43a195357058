/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of objects: a header, then the bytes in pieces.  A receiver that cannot take them still
 * takes them off the wire, so that what comes after is understood; a sender that has none sends the
 * reason instead. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/objects.h>

#include "comm/group_impl.h"
#include "comm/objects_impl.h"

enum { PIECE = 4 << 20 };

typedef struct header {
    int64_t n, bytes;
    int64_t status; /* not TS_OK: the bytes are the sender's error text */
} header;

/* Moves bytes in pieces; with small the same piece of memory takes them all. */
static ts_status move(ts_group *group, char *data, int64_t bytes, int peer, int tag, bool sending,
                      bool small)
{
    for (int64_t at = 0; at < bytes; at += PIECE) {
        int64_t length = bytes - at < PIECE ? bytes - at : PIECE;
        ts_tensor *piece = ts_objects_tensor(small ? data : data + at, length);
        TS_TRY(sending ? ts_send(group, piece, peer, tag) : ts_recv(group, piece, peer, tag, NULL));
    }
    return TS_OK;
}

static ts_status send_all(ts_group *group, header *h, void *data, int dst, int tag)
{
    TS_TRY(ts_send(group, ts_objects_tensor(h, sizeof *h), dst, tag));
    return move(group, data, h->bytes, dst, tag, true, false);
}

/* The other side learns why there are no objects, if it can be told. */
static ts_status send_cause(ts_group *group, ts_status status, int n, int dst, int tag)
{
    char text[TS_ERROR_MAX];
    size_t length = strlen(ts_error_last());
    memcpy(text, ts_error_last(), length + 1);
    header h = {n, (int64_t)length, status};
    send_all(group, &h, text, dst, tag);
    return ts_fail_again(status, text);
}

static ts_status check_list(const char *op, const void *list, int n)
{
    if (list && n > 0) return TS_OK;
    return ts_fail(TS_EINVAL, "%s: the list is %s", op, n < 0 ? "negative" : "empty or missing");
}

ts_status ts_send_object_list(ts_group *group, ts_object *const *list, int n, int dst, int tag)
{
    void *data = NULL;
    size_t size = 0;
    TS_TRY(check_list("send_object_list", list, n));
    TS_TRY(ts_group_find(&group, group, "send_object_list"));
    ts_scope scope = ts_scope_begin();
    const char *before = ts_called_begin("send_object_list", TS_CALL_SITE);
    ts_status status = ts_objects_encode((const ts_object *const *)list, n, &data, &size);
    header h = {n, (int64_t)size, TS_OK};
    if (status == TS_OK)
        status = send_all(group, &h, data, dst, tag);
    else
        status = send_cause(group, status, n, dst, tag);
    free(data);
    ts_called_end(before);
    ts_scope_end(scope);
    return status;
}

/* Takes what nobody wants off the wire and says why. */
static ts_status refuse(ts_group *group, const header *h, int src, int tag, ts_status why)
{
    char text[TS_ERROR_MAX];
    memcpy(text, ts_error_last(), strlen(ts_error_last()) + 1);
    char *room = h->bytes > 0 ? malloc(h->bytes < PIECE ? (size_t)h->bytes : PIECE) : NULL;
    if (room) move(group, room, h->bytes, src, tag, false, true);
    free(room);
    return ts_fail_again(why, text);
}

static ts_status take_cause(ts_group *group, const header *h, int src, int tag)
{
    char text[TS_ERROR_MAX] = "";
    if (h->bytes < (int64_t)sizeof text)
        TS_TRY(move(group, text, h->bytes, src, tag, false, false));
    return ts_fail(TS_EREMOTE, "recv_object_list: rank %d had nothing to send: %s", src, text);
}

static ts_status check_header(const header *h, int n, int src)
{
    int64_t total = 0;
    TS_TRY(ts_objects_add(&total, h->bytes, "recv_object_list"));
    if (h->n == n || h->bytes == 0) return TS_OK;
    return ts_fail(TS_EMISMATCH,
                   "recv_object_list: rank %d sent %" PRId64 " objects, but %d were expected", src,
                   h->n, n);
}

static ts_status receive(ts_group *group, ts_object **list, int n, const header *h, int src,
                         int tag)
{
    char *data = NULL;
    if (h->status != TS_OK) return take_cause(group, h, src, tag);
    ts_status status = check_header(h, n, src);
    if (status != TS_OK) return refuse(group, h, src, tag, status);
    data = malloc((size_t)h->bytes + 1);
    if (!data)
        return refuse(group, h, src, tag, ts_fail_memory((size_t)h->bytes, "recv_object_list"));
    status = move(group, data, h->bytes, src, tag, false, false);
    if (status == TS_OK) status = ts_objects_decode(list, n, data, h->bytes);
    free(data);
    return status;
}

ts_status ts_recv_object_list(ts_group *group, ts_object **list, int n, int src, int tag, int *from)
{
    header h = {0};
    TS_TRY(check_list("recv_object_list", list, n));
    TS_TRY(ts_group_find(&group, group, "recv_object_list"));
    ts_scope scope = ts_scope_begin();
    const char *before = ts_called_begin("recv_object_list", TS_CALL_SITE);
    int sender = src;
    ts_status status = ts_recv(group, ts_objects_tensor(&h, sizeof h), src, tag, &sender);
    if (status == TS_OK) status = receive(group, list, n, &h, sender, tag);
    if (status == TS_OK && from) *from = sender;
    ts_called_end(before);
    ts_scope_end(scope);
    return status;
}
