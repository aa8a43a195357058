/* SPDX-License-Identifier: Apache-2.0 */
/* What the store server does with the bytes of one client. */
#include "store/session.h"

#include <stdlib.h>

#include "base/memory.h"

void ts_hub_fini(ts_hub *hub) { ts_table_fini(&hub->table); }

void ts_session_init(ts_session *session, ts_hub *hub, void *user)
{
    *session = (ts_session){.hub = hub, .user = user};
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void unlink_waiter(ts_hub *hub, ts_waiter *w)
{
    if (w->prev_of_entry)
        w->prev_of_entry->next_of_entry = w->next_of_entry;
    else
        w->entry->waiters = w->next_of_entry;
    if (w->next_of_entry) w->next_of_entry->prev_of_entry = w->prev_of_entry;
    ts_table_tidy(&hub->table, w->entry);
}

static void end_wait(ts_session *session)
{
    while (session->waiters) {
        ts_waiter *w = session->waiters;
        session->waiters = w->next_of_session;
        unlink_waiter(session->hub, w);
        free(w);
    }
    session->missing = 0;
}

void ts_session_fini(ts_session *session)
{
    end_wait(session);
    ts_buffer_fini(&session->in);
    ts_buffer_fini(&session->out);
}

static bool add_waiter(ts_session *session, ts_bytes key, bool barrier)
{
    ts_entry *entry = ts_table_make(&session->hub->table, key);
    ts_waiter *w = entry ? ts_calloc(1, sizeof *w) : NULL;
    if (!w) return false; /* the caller closes the session */
    w->session = session;
    w->entry = entry;
    w->barrier = barrier;
    w->satisfied = !barrier && ts_entry_exists(entry);
    session->missing += !w->satisfied;
    w->next_of_session = session->waiters;
    session->waiters = w;
    ts_waiter **tail = &entry->waiters; /* first come, first served: a queue wakes the oldest */
    while (*tail) {
        w->prev_of_entry = *tail;
        tail = &(*tail)->next_of_entry;
    }
    *tail = w;
    return true;
}

static void stop_waiting(ts_session *session)
{
    end_wait(session);
    ts_buffer_put_byte(&session->out, TS_WIRE_STOP_WAITING);
    session->hub->flush(session);
}

/* After a change: satisfies those who wait for the key, oldest first and at most limit of them. */
static void wake(ts_hub *hub, ts_bytes key, bool barrier, int64_t limit)
{
    ts_entry *entry = ts_table_find(&hub->table, key);
    for (ts_waiter *w = entry ? entry->waiters : NULL, *next; w && limit > 0; w = next) {
        next = w->next_of_entry;
        if (w->satisfied || w->barrier != barrier) continue;
        limit--;
        w->satisfied = true;
        if (--w->session->missing > 0) continue;
        while (next && next->session == w->session) next = next->next_of_entry; /* go with it */
        stop_waiting(w->session);
    }
}

/* After a delete: who waits for several keys now waits for this one again. */
static void unsatisfy(ts_hub *hub, ts_bytes key)
{
    ts_entry *entry = ts_table_find(&hub->table, key);
    if (!entry || ts_entry_exists(entry)) return;
    for (ts_waiter *w = entry->waiters; w; w = w->next_of_entry) {
        if (!w->satisfied || w->barrier) continue;
        w->satisfied = false;
        w->session->missing++;
    }
}

static bool has_all(const ts_session *session, ts_wire_reader r)
{
    for (int64_t n = ts_wire_i64(&r); n > 0; n--)
        if (!ts_entry_exists(ts_table_find(&session->hub->table, ts_wire_bytes(&r)))) return false;
    return true;
}

static bool wait_for_keys(ts_session *session, ts_wire_reader r)
{
    end_wait(session);
    if (has_all(session, r)) {
        ts_buffer_put_byte(&session->out, TS_WIRE_STOP_WAITING);
        return true;
    }
    for (int64_t n = ts_wire_i64(&r); n > 0; n--)
        if (!add_waiter(session, ts_wire_bytes(&r), false)) return false;
    return true;
}

/* ---- commands -------------------------------------------------------------------------------- */

static ts_bytes value_of(const ts_session *session, ts_bytes key)
{
    const ts_entry *e = ts_table_find(&session->hub->table, key);
    return e && e->present ? (ts_bytes){e->value, e->size} : (ts_bytes){NULL, 0};
}

/* False: not possible (no number, no memory). */
static bool change(ts_session *session, ts_table_change *c)
{
    if (ts_table_apply(&session->hub->table, c) != TS_OK) return false;
    if (c->op == TS_STORE_DELETE)
        unsatisfy(session->hub, c->key);
    else if (c->written)
        wake(session->hub, c->key, false, INT64_MAX);
    return true;
}

static bool set(ts_session *session, ts_wire_reader *r, ts_store_op op)
{
    ts_table_change c = {.op = op};
    c.key = ts_wire_bytes(r);
    c.value = ts_wire_bytes(r);
    return change(session, &c);
}

static bool compare_set(ts_session *session, ts_wire_reader *r)
{
    ts_table_change c = {.op = TS_STORE_COMPARE_SET};
    c.key = ts_wire_bytes(r);
    c.expected = ts_wire_bytes(r);
    c.value = ts_wire_bytes(r);
    if (!change(session, &c)) return false;
    ts_buffer_put_bytes(&session->out, c.result);
    return true;
}

static bool add(ts_session *session, ts_wire_reader *r)
{
    ts_table_change c = {.op = TS_STORE_ADD};
    c.key = ts_wire_bytes(r);
    c.n = ts_wire_i64(r);
    if (!change(session, &c)) return false;
    ts_buffer_put_i64(&session->out, c.total);
    return true;
}

/* Counts the arrival; the one that completes the number lets all go. */
static bool barrier(ts_session *session, ts_wire_reader *r)
{
    ts_table_change c = {.op = TS_STORE_ADD, .n = 1};
    c.key = ts_wire_bytes(r);
    int64_t size = ts_wire_i64(r);
    if (!change(session, &c)) return false;
    end_wait(session);
    if (c.total < size) return add_waiter(session, c.key, true);
    wake(session->hub, c.key, true, INT64_MAX);
    ts_buffer_put_byte(&session->out, TS_WIRE_STOP_WAITING);
    return true;
}

static bool delete_key(ts_session *session, ts_wire_reader *r)
{
    ts_table_change c = {.op = TS_STORE_DELETE, .key = ts_wire_bytes(r)};
    change(session, &c);
    ts_buffer_put_i64(&session->out, c.existed);
    return true;
}

static bool queue_pop(ts_session *session, ts_bytes key)
{
    void *value;
    size_t size;
    int64_t queued = ts_table_queued(&session->hub->table, key);
    ts_buffer_put_i64(&session->out, queued);
    if (queued == 0) return true;
    if (ts_table_pop(&session->hub->table, key, &value, &size) != TS_OK) return false;
    ts_buffer_put_bytes(&session->out, (ts_bytes){value, size});
    free(value);
    unsatisfy(session->hub, key);
    return true;
}

static bool queue_push(ts_session *session, ts_wire_reader *r)
{
    ts_bytes key = ts_wire_bytes(r);
    if (ts_table_push(&session->hub->table, key, ts_wire_bytes(r)) != TS_OK) return false;
    wake(session->hub, key, false, 1);
    return true;
}

static bool list_keys(ts_session *session)
{
    const ts_table *table = &session->hub->table;
    ts_buffer_put_i64(&session->out, table->keys);
    for (const ts_entry *e = NULL; (e = ts_table_next(table, e));)
        if (e->present) ts_buffer_put_bytes(&session->out, (ts_bytes){e->key, e->key_size});
    return true;
}

static bool multi_get(ts_session *session, ts_wire_reader *r)
{
    for (int64_t n = ts_wire_i64(r); n > 0; n--)
        ts_buffer_put_bytes(&session->out, value_of(session, ts_wire_bytes(r)));
    return true;
}

static bool multi_set(ts_session *session, ts_wire_reader *r)
{
    for (int64_t n = ts_wire_i64(r); n > 0; n--)
        if (!set(session, r, TS_STORE_SET)) return false;
    return true;
}

static bool reply_i64(ts_session *session, int64_t value)
{
    return ts_buffer_put_i64(&session->out, value), true;
}

/* False: the client is to be dropped. */
static bool execute(ts_session *session, ts_wire_command command, ts_wire_reader r)
{
    ts_buffer *out = &session->out;
    switch (command) {
    case TS_WIRE_VALIDATE: return ts_wire_u32(&r) == TS_WIRE_MAGIC;
    case TS_WIRE_PING: return ts_buffer_put_u32(out, ts_wire_u32(&r)), true;
    case TS_WIRE_SET: return set(session, &r, TS_STORE_SET);
    case TS_WIRE_APPEND: return set(session, &r, TS_STORE_APPEND);
    case TS_WIRE_COMPARE_SET: return compare_set(session, &r);
    case TS_WIRE_GET: return ts_buffer_put_bytes(out, value_of(session, ts_wire_bytes(&r))), true;
    case TS_WIRE_ADD: return add(session, &r);
    case TS_WIRE_CHECK:
        return ts_buffer_put_byte(out, has_all(session, r) ? TS_WIRE_READY : TS_WIRE_NOT_READY),
               true;
    case TS_WIRE_WAIT: return wait_for_keys(session, r);
    case TS_WIRE_CANCEL_WAIT:
        return end_wait(session), ts_buffer_put_byte(out, TS_WIRE_WAIT_CANCELED), true;
    case TS_WIRE_GETNUMKEYS: return reply_i64(session, session->hub->table.keys);
    case TS_WIRE_DELETE_KEY: return delete_key(session, &r);
    case TS_WIRE_MULTI_GET: return multi_get(session, &r);
    case TS_WIRE_MULTI_SET: return multi_set(session, &r);
    case TS_WIRE_QUEUE_PUSH: return queue_push(session, &r);
    case TS_WIRE_QUEUE_POP: return queue_pop(session, ts_wire_bytes(&r));
    case TS_WIRE_QUEUE_LEN:
        return reply_i64(session, ts_table_queued(&session->hub->table, ts_wire_bytes(&r)));
    case TS_WIRE_LIST_KEYS: return list_keys(session);
    case TS_WIRE_BARRIER: return barrier(session, &r);
    case TS_WIRE_COMMAND_COUNT: break;
    }
    return false;
}

/* For the log: why execute has said no. */
static const char *why_not(ts_wire_command command)
{
    switch (command) {
    case TS_WIRE_VALIDATE: return "its validation message is not that of a store's client";
    case TS_WIRE_ADD:
    case TS_WIRE_BARRIER: return "it adds to a key that does not hold a number (or out of memory)";
    case TS_WIRE_SET:
    case TS_WIRE_MULTI_SET:
    case TS_WIRE_APPEND:
    case TS_WIRE_COMPARE_SET: return "it sets a key that is a queue (or out of memory)";
    case TS_WIRE_QUEUE_PUSH: return "its queue is a key that has a value (or out of memory)";
    default: return "the command is not known, or out of memory";
    }
}

/* What comes before the first request of a client that has a secret, or must have one. */
static bool authenticate(ts_session *session, const char *data, size_t size, size_t *used,
                         const char **why)
{
    int64_t n = ts_auth_serve(&session->auth, &session->hub->key, data, size, &session->out, why);
    *used = n > 0 ? (size_t)n : 0;
    return n >= 0;
}

static bool is_authenticated(ts_session *session, const char *data, size_t size)
{
    if (session->auth.stage == TS_AUTH_NEW && !session->hub->key.given && size > 0 &&
        (uint8_t)data[0] != TS_AUTH_FIRST_BYTE)
        session->auth.stage = TS_AUTH_DONE;
    return session->auth.stage == TS_AUTH_DONE;
}

static bool next_request(ts_session *session, const char *data, size_t size, size_t *used,
                         const char **why)
{
    *used = 0;
    if (!is_authenticated(session, data, size)) return authenticate(session, data, size, used, why);
    if (!session->validated && size > 0 && data[0] != TS_WIRE_VALIDATE) {
        *why = "it does not begin with the validation message";
        return false;
    }
    int64_t end = ts_wire_find_end(&session->scan, data, size, why);
    if (end <= 0) return end == 0;
    *why = why_not((ts_wire_command)data[0]);
    if (!execute(session, (ts_wire_command)data[0], (ts_wire_reader){data + 1}) ||
        session->out.failed)
        return false;
    session->validated = true;
    session->scan = (ts_wire_scan){0};
    *used = (size_t)end;
    return true;
}

bool ts_session_feed(ts_session *session, const char *data, size_t size, const char **why)
{
    if (size == 0) return true;
    *why = "out of memory";
    ts_buffer_put(&session->in, data, size);
    if (session->in.failed) return false;
    size_t at = 0, used;
    bool good;
    do {
        good = next_request(session, session->in.data + at, session->in.size - at, &used, why);
        at += used;
    } while (good && used > 0);
    ts_buffer_drop(&session->in, at);
    if (session->out.size > 0) session->hub->flush(session);
    return good;
}
