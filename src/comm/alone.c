/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a group of one, which has no backend: they go to oneself. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/group_impl.h"

typedef struct note {
    struct note *next;
    ts_p2p message;
    bool done;
    ts_status status;
    char error[160];
} note;

/* The lock is recursive and held while owners are told, which may post and free messages: so one
 * that is let go by another thread has either been told of, or will never be. */
struct ts_alone {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    note *first; /* in flight, in the order of posting; all of one tag go the same way */
};

ts_status ts_alone_new(ts_alone **out)
{
    pthread_mutexattr_t recursive;
    pthread_condattr_t monotonic;
    ts_alone *alone = ts_calloc(1, sizeof *alone);
    if (!alone) return ts_fail_memory(sizeof *alone, "a group");
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&alone->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&alone->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *out = alone;
    return TS_OK;
}

void ts_alone_free(ts_alone *alone)
{
    if (!alone) return;
    pthread_mutex_destroy(&alone->lock);
    pthread_cond_destroy(&alone->ended);
    free(alone);
}

/* ---- with the lock held ---------------------------------------------------------------------- */

/* m may be gone afterwards. */
static void end(ts_alone *alone, note *m, ts_status status)
{
    const ts_p2p *p = &m->message;
    m->done = true;
    m->status = status;
    pthread_cond_broadcast(&alone->ended);
    if (p->done) p->done(p->user, status, status == TS_OK ? NULL : m->error, 0);
}

static void pair(ts_alone *alone, note *send, note *receive)
{
    size_t sent = send->message.bytes, expected = receive->message.bytes;
    bool fits = sent == expected;
    if (!fits)
        snprintf(receive->error, sizeof receive->error,
                 "this rank sent itself %zu bytes with tag %d, but the receive expects %zu", sent,
                 send->message.tag, expected);
    else if (sent > 0)
        memcpy(receive->message.data, send->message.data, sent);
    end(alone, send, TS_OK);
    end(alone, receive, fits ? TS_OK : TS_EMISMATCH);
}

static void take_out(ts_alone *alone, const note *m)
{
    note **at = &alone->first;
    while (*at && *at != m) at = &(*at)->next;
    if (*at) *at = m->next;
}

/* The first that m can go with. */
static note *find_partner(const ts_alone *alone, const note *m)
{
    note *found = alone->first;
    while (found &&
           (found->message.tag != m->message.tag || found->message.sending == m->message.sending))
        found = found->next;
    return found;
}

static void append(ts_alone *alone, note *m)
{
    note **at = &alone->first;
    while (*at) at = &(*at)->next;
    *at = m;
}

/* ---- as in ts_backend_ops -------------------------------------------------------------------- */

ts_status ts_alone_start(ts_alone *alone, void **request, const ts_p2p *message)
{
    note *m = ts_calloc(1, sizeof *m);
    if (!m) return ts_fail_memory(sizeof *m, "a message");
    m->message = *message;
    *request = m;
    pthread_mutex_lock(&alone->lock);
    note *partner = find_partner(alone, m);
    if (partner) {
        take_out(alone, partner);
        pair(alone, message->sending ? m : partner, message->sending ? partner : m);
    } else {
        append(alone, m);
    }
    pthread_mutex_unlock(&alone->lock);
    return TS_OK;
}

static bool wait_until(ts_alone *alone, const note *m, ts_deadline deadline)
{
    struct timespec until = {.tv_sec = (time_t)(deadline.at_ns / 1000000000),
                             .tv_nsec = (long)(deadline.at_ns % 1000000000)};
    while (!m->done) {
        if (deadline.at_ns == INT64_MAX)
            pthread_cond_wait(&alone->ended, &alone->lock);
        else if (pthread_cond_timedwait(&alone->ended, &alone->lock, &until) == ETIMEDOUT)
            break;
    }
    return m->done;
}

ts_status ts_alone_wait(ts_alone *alone, void *request, int64_t timeout_ms)
{
    note *m = request;
    pthread_mutex_lock(&alone->lock);
    ts_status status;
    if (!wait_until(alone, m, ts_deadline_in(timeout_ms)))
        status = ts_fail(TS_ETIMEOUT, "recv: this rank has sent itself nothing with tag %d",
                         m->message.tag);
    else
        status = m->status == TS_OK ? TS_OK : ts_fail_again(m->status, m->error);
    take_out(alone, m);
    pthread_mutex_unlock(&alone->lock);
    free(m);
    return status;
}

void ts_alone_let_go(ts_alone *alone, void *request)
{
    note *m = request;
    pthread_mutex_lock(&alone->lock);
    take_out(alone, m);
    pthread_mutex_unlock(&alone->lock);
    free(m);
}

void ts_alone_close(ts_alone *alone)
{
    pthread_mutex_lock(&alone->lock);
    while (alone->first) {
        note *m = alone->first;
        alone->first = m->next;
        snprintf(m->error, sizeof m->error, "the group was destroyed");
        end(alone, m, TS_EABORTED);
    }
    pthread_mutex_unlock(&alone->lock);
}
