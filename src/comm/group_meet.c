/* SPDX-License-Identifier: Apache-2.0 */
/* Groups that only their members make: they meet in the store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/group_plan.h"

typedef struct meeting {
    ts_store *store;
    int size, rank;
    size_t bytes; /* of what each says */
    char *text;   /* of the keys */
    const char **key;
} meeting;

enum { KEY_BYTES = 24 };

static ts_status open_meeting(meeting *m, const ts_group *group, size_t bytes)
{
    *m = (meeting){.store = group->store, .size = group->size, .rank = group->rank, .bytes = bytes};
    if (!m->store)
        return ts_fail(TS_EUNSUPPORTED,
                       "new_group: backend '%s' has no store in which members could meet",
                       group->ops->name);
    m->text = ts_calloc((size_t)m->size, KEY_BYTES);
    m->key = ts_calloc((size_t)m->size, sizeof *m->key);
    if (!m->text || !m->key) return ts_fail_memory((size_t)m->size * KEY_BYTES, "a group");
    for (int q = 0; q < m->size; q++) {
        m->key[q] = m->text + (size_t)q * KEY_BYTES;
        snprintf(m->text + (size_t)q * KEY_BYTES, KEY_BYTES, "meet/%d", q);
    }
    return TS_OK;
}

static void close_meeting(meeting *m)
{
    free(m->text);
    free(m->key);
}

static ts_status word_missing(const meeting *m, const ts_group *group, int64_t timeout_ms)
{
    char missing[512] = "";
    size_t used = 0;
    for (int q = 0; q < m->size && used < sizeof missing; q++) {
        bool there = false;
        if (ts_store_check(m->store, &m->key[q], 1, &there) == TS_OK && there) continue;
        used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d", used ? ", " : "",
                                 group->ranks[q]);
    }
    return ts_fail(TS_ETIMEOUT,
                   "new_group: rank%s %s did not come within %lld ms to make group '%s'; all "
                   "members must make their groups in the same order",
                   strchr(missing, ',') ? "s" : "", missing, (long long)timeout_ms, group->name);
}

/* Keys that everybody has read are not needed any more. */
static void tidy(meeting *m)
{
    int64_t read = 0;
    bool existed;
    if (ts_store_add(m->store, "met", 1, &read) != TS_OK || read < m->size) return;
    for (int q = 0; q < m->size; q++) ts_store_delete_key(m->store, m->key[q], &existed);
    ts_store_delete_key(m->store, "met", &existed);
}

static ts_status take(const meeting *m, char *all, void **value, const size_t *size)
{
    ts_status status = TS_OK;
    for (int q = 0; q < m->size; q++) {
        if (size[q] == m->bytes)
            memcpy(all + (size_t)q * m->bytes, value[q], m->bytes);
        else
            status = ts_fail(TS_ESTORE, "new_group: what member %d said has %zu bytes, not %zu", q,
                             size[q], m->bytes);
        free(value[q]);
    }
    return status;
}

static ts_status meet(meeting *m, const ts_group *group, const void *own, void *all,
                      int64_t timeout_ms)
{
    TS_TRY(ts_store_set(m->store, m->key[m->rank], own, m->bytes));
    ts_status status = ts_store_wait(m->store, m->key, m->size, timeout_ms);
    if (status == TS_ETIMEOUT) return word_missing(m, group, timeout_ms);
    TS_TRY(status);
    void **value = ts_calloc((size_t)m->size, sizeof *value);
    size_t *size = ts_calloc((size_t)m->size, sizeof *size);
    status = value && size ? ts_store_multi_get(m->store, m->key, m->size, value, size)
                           : ts_fail_memory((size_t)m->size * sizeof *size, "a group");
    if (status == TS_OK) status = take(m, all, value, size);
    free(value);
    free(size);
    if (status == TS_OK) tidy(m);
    return status;
}

ts_status ts_group_meet(const ts_group *group, const void *own, void *all, size_t bytes,
                        int64_t timeout_ms)
{
    meeting m;
    ts_status status = open_meeting(&m, group, bytes);
    if (status == TS_OK) status = meet(&m, group, own, all, timeout_ms);
    close_meeting(&m);
    return status;
}
