/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that have no group in common yet meet in a store, and agree on what they make there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/group_plan.h"

/* Keys: "meet/<rank>" is what each says, "first" what the first one said, "wrong" the status and
 * the text of what somebody found wrong before all had come, "met" how many have read. */
typedef struct meeting {
    const ts_group *group;
    const char *what;
    ts_store *store;
    char *text; /* of the keys */
    const char **key;
    const ts_meet_record *own;
    ts_meet_record *all;
} meeting;

enum { KEY_BYTES = 24, FIRST_SLICE_MS = 50, LAST_SLICE_MS = 2000 };

/* ---- verdicts -------------------------------------------------------------------------------- */

static ts_status word_missing(const meeting *m, int64_t timeout_ms)
{
    char missing[512] = "";
    size_t used = 0;
    for (int q = 0; q < m->group->size && used < sizeof missing; q++) {
        bool there = false;
        if (ts_store_check(m->store, &m->key[q], 1, &there) == TS_OK && there) continue;
        used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d", used ? ", " : "",
                                 ts_group_global(m->group, q));
    }
    return ts_fail(TS_ETIMEOUT,
                   "%s: rank%s %s did not come within %lld ms to make group '%s'; all members must "
                   "make their groups in the same order",
                   m->what, strchr(missing, ',') ? "s" : "", missing, (long long)timeout_ms,
                   m->group->name);
}

static ts_status word_bad(const meeting *m, const ts_meet_record *of)
{
    if (of->rank == m->own->rank)
        return ts_fail((ts_status)of->status, "%s: %s", m->what, of->text);
    return ts_fail(TS_EREMOTE, "%s: rank %d came with bad arguments: %s; no group was made",
                   m->what, ts_group_global(m->group, of->rank), of->text);
}

/* Of any two the same on every rank that looks at them. */
static ts_status compare(const meeting *m, const ts_meet_record *a, const ts_meet_record *b)
{
    if (m->own->status != TS_OK) return word_bad(m, m->own);
    if (a->status != TS_OK) return word_bad(m, a);
    if (b->status != TS_OK) return word_bad(m, b);
    if (a->digest == b->digest) return TS_OK;
    return ts_fail(TS_EMISMATCH,
                   "%s: ranks disagree: rank %d asks for \"%s\", rank %d for \"%s\"; no group was "
                   "made",
                   m->what, ts_group_global(m->group, a->rank), a->text,
                   ts_group_global(m->group, b->rank), b->text);
}

static ts_status open_meeting(meeting *m)
{
    int size = m->group->size;
    if (!m->store && m->own->status != TS_OK) return word_bad(m, m->own);
    if (!m->store)
        return ts_fail(TS_EUNSUPPORTED, "%s: backend '%s' has no store in which members could meet",
                       m->what, m->group->ops->name);
    m->text = ts_calloc((size_t)size, KEY_BYTES);
    m->key = ts_calloc((size_t)size, sizeof *m->key);
    if (!m->text || !m->key) return ts_fail_memory((size_t)size * KEY_BYTES, "a group");
    for (int q = 0; q < size; q++) {
        m->key[q] = m->text + (size_t)q * KEY_BYTES;
        snprintf(m->text + (size_t)q * KEY_BYTES, KEY_BYTES, "meet/%d", q);
    }
    return TS_OK;
}

/* ---- coming ---------------------------------------------------------------------------------- */

static bool take(ts_meet_record *out, void *value, size_t size)
{
    bool fits = size == sizeof *out;
    if (fits) memcpy(out, value, size);
    if (fits) out->text[sizeof out->text - 1] = '\0';
    free(value);
    return fits;
}

/* The first one's record, which is the own one if nobody was here before. */
static ts_status look_at_first(const meeting *m, ts_meet_record *first)
{
    void *value;
    size_t size;
    TS_TRY(ts_store_compare_set(m->store, "first", "", 0, m->own, sizeof *m->own, &value, &size));
    if (take(first, value, size)) return TS_OK;
    return ts_fail(TS_ESTORE, "%s: what the first rank said has %zu bytes, not %zu", m->what, size,
                   sizeof *first);
}

void ts_verdict_post(ts_store *store, const char *key, ts_status status, const char *text)
{
    void *value = NULL;
    size_t size;
    char verdict[16 + TS_ERROR_MAX];
    snprintf(verdict, sizeof verdict, "%d %s", (int)status, text);
    if (ts_store_compare_set(store, key, "", 0, verdict, strlen(verdict) + 1, &value, &size) ==
        TS_OK)
        free(value);
}

ts_status ts_verdict_read(ts_store *store, const char *key)
{
    bool there = false;
    void *value;
    size_t size;
    TS_TRY(ts_store_check(store, &key, 1, &there));
    if (!there) return TS_OK;
    TS_TRY(ts_store_get(store, key, &value, &size));
    char *text = ts_strndup(value, size), *end = text;
    free(value);
    ts_status status = text ? (ts_status)strtol(text, &end, 10) : TS_ENOMEM;
    if (status != TS_OK) ts_fail_again(status, end && *end ? end + 1 : ts_status_text(status));
    free(text);
    return status;
}

/* So that nobody waits for ranks that will not come. */
static void post_wrong(const meeting *m, ts_status status)
{
    char text[TS_ERROR_MAX], before[TS_ERROR_MAX];
    snprintf(before, sizeof before, "%s", ts_error_last());
    if (m->own->status == TS_OK) {
        ts_verdict_post(m->store, "wrong", status, before);
    } else {
        snprintf(text, sizeof text, "%s: rank %d came with bad arguments: %s; no group was made",
                 m->what, ts_group_global(m->group, m->own->rank), m->own->text);
        ts_verdict_post(m->store, "wrong", TS_EREMOTE, text);
    }
    ts_fail_again(status, before);
}

/* Until all are here, or it is known that something is wrong. */
static ts_status wait_for_all(const meeting *m, int64_t timeout_ms)
{
    ts_deadline deadline = ts_deadline_in(timeout_ms);
    int64_t slice = FIRST_SLICE_MS;
    for (;;) {
        int64_t left = ts_deadline_left_ms(deadline);
        bool limited = timeout_ms > 0 && left < slice;
        ts_status status = ts_store_wait(m->store, m->key, m->group->size,
                                         limited ? (left > 0 ? left : 1) : slice);
        if (status != TS_ETIMEOUT) return status;
        TS_TRY(ts_verdict_read(m->store, "wrong"));
        if (timeout_ms > 0 && ts_deadline_passed(deadline)) return word_missing(m, timeout_ms);
        slice = 2 * slice < LAST_SLICE_MS ? 2 * slice : LAST_SLICE_MS;
    }
}

static ts_status read_all(const meeting *m)
{
    int size = m->group->size;
    void **value = ts_calloc((size_t)size, sizeof *value);
    size_t *bytes = ts_calloc((size_t)size, sizeof *bytes);
    ts_status status = value && bytes ? ts_store_multi_get(m->store, m->key, size, value, bytes)
                                      : ts_fail_memory((size_t)size * sizeof *bytes, "a group");
    for (int q = 0; status == TS_OK && q < size; q++)
        if (!take(&m->all[q], value[q], bytes[q]))
            status = ts_fail(TS_ESTORE, "%s: what member %d said has %zu bytes, not %zu", m->what,
                             q, bytes[q], sizeof *m->all);
    free(value);
    free(bytes);
    return status;
}

/* Keys that everybody has read are not needed any more. */
static void tidy(const meeting *m)
{
    int64_t read = 0;
    bool existed;
    if (ts_store_add(m->store, "met", 1, &read) != TS_OK || read < m->group->size) return;
    for (int q = 0; q < m->group->size; q++) ts_store_delete_key(m->store, m->key[q], &existed);
    ts_store_delete_key(m->store, "first", &existed);
    ts_store_delete_key(m->store, "met", &existed);
}

static ts_status meet(const meeting *m, int64_t timeout_ms)
{
    ts_meet_record first;
    TS_TRY(ts_store_set(m->store, m->key[m->own->rank], m->own, sizeof *m->own));
    TS_TRY(look_at_first(m, &first));
    ts_status status = compare(m, &first, m->own);
    if (status != TS_OK) {
        post_wrong(m, status);
        return status;
    }
    TS_TRY(wait_for_all(m, timeout_ms));
    TS_TRY(read_all(m));
    for (int q = 0; q < m->group->size; q++) TS_TRY(compare(m, &m->all[0], &m->all[q]));
    tidy(m);
    return TS_OK;
}

ts_status ts_group_meet(const ts_group *group, const char *what, ts_store *store,
                        const ts_meet_record *own, ts_meet_record *all, int64_t timeout_ms)
{
    meeting m = {.group = group, .what = what, .store = store, .own = own, .all = all};
    if (group->size == 1) {
        *all = *own;
        return compare(&m, own, own);
    }
    ts_status status = open_meeting(&m);
    if (status == TS_OK) status = meet(&m, timeout_ms);
    free(m.text);
    free(m.key);
    return status;
}
