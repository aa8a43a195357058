/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two ranks, on a communicator of their own.  Those with a callback are tested by a
 * thread of the group, which sleeps while there are none; blocking ones by whoever waits. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"

enum { CANCEL_MS = 2000, EAGER_POLLS = 400, MOST_NAP_US = 500, BLOCK = 1 << 20 };

struct message {
    message *next; /* of the group, while it is watched */
    group *g;
    ts_p2p p2p;
    MPI_Request request;
    MPI_Datatype type; /* of a long message, else MPI_DATATYPE_NULL */
    bool done;
    ts_status status;
    char *error;
    int source;
};

/* ---- starting -------------------------------------------------------------------------------- */

/* One element that covers bytes, for lengths that an int does not hold. */
static int make_type(MPI_Datatype *out, size_t bytes)
{
    int blocks = (int)(bytes / BLOCK), rest = (int)(bytes % BLOCK), lengths[2] = {1, rest};
    MPI_Aint places[2] = {0, (MPI_Aint)(bytes - (size_t)rest)};
    MPI_Datatype block, whole, types[2];
    MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
    MPI_Type_contiguous(blocks, block, &whole);
    types[0] = whole;
    types[1] = MPI_BYTE;
    int code = MPI_Type_create_struct(2, lengths, places, types, out);
    if (code == MPI_SUCCESS) code = MPI_Type_commit(out);
    MPI_Type_free(&block);
    MPI_Type_free(&whole);
    return code;
}

static int post(message *m)
{
    const ts_p2p *p = &m->p2p;
    int code = MPI_SUCCESS, count = (int)p->bytes;
    MPI_Datatype type = MPI_BYTE;
    if (p->bytes > (size_t)mpi.limit) {
        code = make_type(&m->type, p->bytes);
        if (code != MPI_SUCCESS) return code;
        type = m->type;
        count = 1;
    }
    /* MPI has no negative tags. */
    MPI_Comm comm = p->tag < 0 ? m->g->library : m->g->user;
    int tag = p->tag < 0 ? -p->tag : p->tag;
    if (p->sending) return MPI_Isend(p->data, count, type, p->peer, tag, comm, &m->request);
    int source = p->peer == TS_ANY_SOURCE ? MPI_ANY_SOURCE : p->peer;
    return MPI_Irecv(p->data, count, type, source, tag, comm, &m->request);
}

static void message_free(message *m)
{
    free(m->error);
    free(m);
}

static void watch(group *g, message *m);

ts_status mpi_start(void **out, void *self, const ts_p2p *p2p)
{
    group *g = group_of(self);
    const char *op = p2p->sending ? "send" : "recv";
    TRY(group_health(g, NULL));
    if (p2p->tag > mpi.most_tag)
        return mpi.host->fail(TS_EINVAL, "%s: tag %d, but this MPI has tags up to %lld", op,
                              p2p->tag, (long long)mpi.most_tag);
    message *m = calloc(1, sizeof *m);
    if (!m) return mpi.host->fail(TS_ENOMEM, "%s: out of memory for a message", op);
    m->g = g;
    m->p2p = *p2p;
    m->request = MPI_REQUEST_NULL;
    m->type = MPI_DATATYPE_NULL;
    *out = m;
    if (!process_enter()) {
        message_free(m);
        return group_health(g, NULL);
    }
    int code = post(m);
    if (code == MPI_SUCCESS && p2p->done) watch(g, m);
    process_leave();
    if (code == MPI_SUCCESS) return TS_OK;
    message_free(m);
    return process_error(code, op);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void set_error(message *m, ts_status status, const char *text)
{
    m->status = status;
    m->error = strdup(text);
}

/* The length that came, against the one that was expected. */
static void check_length(message *m, int code, const MPI_Status *s)
{
    char text[256];
    MPI_Count got = 0;
    int klass = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &klass);
    MPI_Get_elements_x(s, MPI_BYTE, &got);
    if (klass != MPI_ERR_TRUNCATE && (size_t)got == m->p2p.bytes) return;
    if (klass == MPI_ERR_TRUNCATE)
        snprintf(text, sizeof text,
                 "rank %d has sent more than the %zu bytes of the tensor, with tag %d; send "
                 "and receive equal numbers of bytes",
                 group_global(m->g, s->MPI_SOURCE), m->p2p.bytes, m->p2p.tag);
    else
        snprintf(text, sizeof text,
                 "rank %d has sent %lld bytes with tag %d, but the tensor has %zu; send and "
                 "receive equal numbers of bytes",
                 group_global(m->g, s->MPI_SOURCE), (long long)got, m->p2p.tag, m->p2p.bytes);
    set_error(m, TS_EMISMATCH, text);
}

static void finish(message *m, int code, const MPI_Status *s)
{
    int klass = MPI_SUCCESS;
    m->done = true;
    m->source = m->p2p.sending ? m->p2p.peer : s->MPI_SOURCE;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &klass);
    if (code != MPI_SUCCESS && klass != MPI_ERR_TRUNCATE) {
        process_error(code, m->p2p.sending ? "send" : "recv");
        set_error(m, TS_ENETWORK, mpi.host->error_last());
    } else if (!m->p2p.sending) {
        check_length(m, code, s);
    }
    if (m->type != MPI_DATATYPE_NULL) MPI_Type_free(&m->type);
}

/* With the process lock held. */
static bool test(message *m)
{
    MPI_Status s;
    int done = 0;
    if (m->done) return true;
    int code = MPI_Test(&m->request, &done, &s);
    if (code != MPI_SUCCESS && m->request != MPI_REQUEST_NULL) MPI_Request_free(&m->request);
    if (code != MPI_SUCCESS || done) finish(m, code, &s);
    return m->done;
}

/* ---- those with a callback ------------------------------------------------------------------- */

/* Takes the messages that are done out of the list. */
static message *collect(group *g)
{
    message *ready = NULL, **end = &ready;
    for (message **at = &g->messages; *at;) {
        message *m = *at;
        if (!test(m)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        m->next = NULL;
        *end = m;
        end = &m->next;
    }
    return ready;
}

/* The callback may release the message. */
static void deliver(message *ready)
{
    while (ready) {
        message *m = ready;
        ts_p2p p2p = m->p2p;
        ts_status status = m->status;
        int source = m->source;
        char *error = m->error;
        ready = m->next;
        m->error = NULL;
        p2p.done(p2p.user, status, error, source);
        free(error);
    }
}

static bool poll_messages(group *g)
{
    message *ready = NULL;
    pthread_mutex_lock(&g->delivering);
    if (process_enter()) {
        ready = collect(g);
        bells_poll(g);
        process_leave();
    }
    deliver(ready);
    pthread_mutex_unlock(&g->delivering);
    return ready != NULL;
}

/* Ends what is still watched: of a broken group, or of one that is closed. */
static void end_all(group *g, void (*end)(message *m))
{
    pthread_mutex_lock(&g->delivering);
    pthread_mutex_lock(&mpi.lock);
    message *all = g->messages;
    g->messages = NULL;
    pthread_mutex_unlock(&mpi.lock);
    for (message *m = all; m; m = m->next) {
        end(m);
        m->done = true;
    }
    deliver(all);
    pthread_mutex_unlock(&g->delivering);
}

static void end_broken(message *m)
{
    ts_status status = group_health(m->g, NULL);
    set_error(m, status, mpi.host->error_last());
    mpi.dead = true; /* its buffer goes back to the program */
}

static void rest(int idle)
{
    int us = idle < EAGER_POLLS ? 0 : idle - EAGER_POLLS;
    struct timespec nap = {0, 1000L * (us > MOST_NAP_US ? MOST_NAP_US : us)};
    if (us == 0)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

static void thread_main(void *arg)
{
    group *g = arg;
    int idle = 0;
    for (;;) {
        pthread_mutex_lock(&mpi.lock);
        while (!g->messages && !g->closing) pthread_cond_wait(&g->wake, &mpi.lock);
        bool closing = g->closing;
        pthread_mutex_unlock(&mpi.lock);
        if (closing) return;
        idle = poll_messages(g) ? 0 : idle + 1;
        if (group_health(g, NULL) != TS_OK) end_all(g, end_broken);
        rest(idle);
    }
}

/* With the process lock held.  Without a thread the message is tested by whoever waits. */
static void watch(group *g, message *m)
{
    message **end = &g->messages;
    while (*end) end = &(*end)->next;
    *end = m;
    if (!g->has_thread)
        g->has_thread = mpi.host->thread_start(&g->thread, "ts-mpi", thread_main, g) == TS_OK;
    pthread_cond_signal(&g->wake);
}

static void forget(group *g, const message *m)
{
    for (message **at = &g->messages; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            return;
        }
}

/* ---- giving up ------------------------------------------------------------------------------- */

/* Receives can be taken back, sends that have begun only waited for. */
static void cancel(message *m)
{
    int64_t until = mpi.host->now_ns() + (int64_t)CANCEL_MS * 1000000;
    bool done = false;
    if (!process_enter()) return;
    if (m->request != MPI_REQUEST_NULL) MPI_Cancel(&m->request);
    process_leave();
    while (!done && mpi.host->now_ns() < until && process_enter()) {
        done = test(m);
        process_leave();
        if (!done) sched_yield();
    }
    if (done) return;
    mpi.host->warn("mpi: a %s rank %d with tag %d cannot be taken back",
                   m->p2p.sending ? "send to" : "receive from", group_global(m->g, m->p2p.peer),
                   m->p2p.tag);
    pthread_mutex_lock(&mpi.lock);
    m->g->stuck = true;
    mpi.dead = mpi.dead || !m->p2p.sending;
    pthread_mutex_unlock(&mpi.lock);
}

void mpi_release(void *self, void *request)
{
    group *g = group_of(self);
    message *m = request;
    pthread_mutex_lock(&g->delivering);
    pthread_mutex_lock(&mpi.lock);
    forget(g, m);
    pthread_mutex_unlock(&mpi.lock);
    if (!m->done) cancel(m);
    if (m->done) message_free(m); /* else MPI still has it */
    pthread_mutex_unlock(&g->delivering);
}

ts_status mpi_message_wait(void *self, void *request, int64_t timeout_ms, int *peer)
{
    group *g = group_of(self);
    message *m = request;
    pause_state p = {.tests = 0};
    ts_status status = TS_OK;
    bool done = false;
    while (!done && status == TS_OK) {
        if (!process_enter()) {
            status = group_health(g, NULL);
            break;
        }
        done = test(m);
        process_leave();
        if (!done) status = wait_pause(g, &p, NULL, timeout_ms);
    }
    if (done) {
        status = m->status;
        if (status != TS_OK) mpi.host->fail_again(status, m->error ? m->error : "out of memory");
        if (peer) *peer = m->source;
    } else if (status == TS_ETIMEOUT) {
        group_fail(g, NULL, status, "%s rank %d with tag %d is not done within %lld ms",
                   m->p2p.sending ? "send to" : "recv from", group_global(g, m->p2p.peer),
                   m->p2p.tag, (long long)timeout_ms);
    }
    char text[1024] = "";
    if (status != TS_OK) snprintf(text, sizeof text, "%s", mpi.host->error_last());
    mpi_release(self, m);
    return status == TS_OK ? TS_OK : mpi.host->fail_again(status, text);
}

static void end_closed(message *m)
{
    if (!m->done) cancel(m);
    if (m->status == TS_OK) set_error(m, TS_EABORTED, "the group was destroyed");
}

void messages_close(group *g)
{
    pthread_mutex_lock(&mpi.lock);
    g->closing = true;
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&mpi.lock);
    if (g->has_thread) pthread_join(g->thread, NULL);
    g->has_thread = false;
    end_all(g, end_closed);
}
