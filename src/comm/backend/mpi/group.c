/* SPDX-License-Identifier: Apache-2.0 */
/* Life and health of groups. */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"

enum { LEAVE_QUIETLY_MS = 100, LEAVE_MS = 2000, FAREWELL_MS = 100, SPLIT_TAG = 1 };

/* ---- health ---------------------------------------------------------------------------------- */

void group_break(group *g, ts_status status, const char *text)
{
    pthread_mutex_lock(&g->state_lock);
    if (!atomic_load(&g->broken)) {
        g->status = status;
        g->text = strdup(text);
        g->broken_ns = mpi.host->now_ns();
        atomic_store(&g->broken, true);
    }
    pthread_mutex_unlock(&g->state_lock);
}

/* "all_reduce #3 of group 'default': " */
static void name_operation(const group *g, const ts_coll *coll, char *out, size_t size)
{
    if (coll)
        snprintf(out, size, "%s #%llu of group '%s': ", coll->name,
                 (unsigned long long)coll->sequence, g->name);
    else
        snprintf(out, size, "group '%s' (mpi): ", g->name);
}

ts_status group_fail(group *g, const ts_coll *coll, ts_status status, const char *format, ...)
{
    char text[1024], name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    name_operation(g, coll, name, sizeof name);
    return mpi.host->fail(status, "%s%s", name, text);
}

ts_status group_health(group *g, const ts_coll *coll)
{
    char name[128];
    if (atomic_load_explicit(&g->broken, memory_order_acquire)) {
        double seconds = (double)(mpi.host->now_ns() - g->broken_ns) * 1e-9;
        const char *text = g->text ? g->text : "out of memory";
        name_operation(g, coll, name, sizeof name);
        if (strncmp(text, name, strlen(name)) == 0) name[0] = '\0';
        return mpi.host->fail(g->status, "%s%s; the group is broken since %.1f s", name, text,
                              seconds);
    }
    if (!mpi.dead && !mpi.finalized) return TS_OK;
    return group_fail(g, coll, TS_EBACKEND,
                      "MPI is not used any more in this process, because another operation on the "
                      "program's memory was given up");
}

/* Lets a notice get out. */
static void push_out(group *g)
{
    int64_t until = mpi.host->now_ns() + (int64_t)FAREWELL_MS * 1000000;
    while (g->bells && mpi.host->now_ns() < until) bells_poll(g);
}

static void tell_abort(group *g, const char *text)
{
    bell b = {.kind = RING_ABORT, .status = TS_EREMOTE};
    snprintf(b.text, sizeof b.text, "%.480s", text);
    if (!process_enter()) return;
    bells_ring(g, &b);
    push_out(g);
    process_leave();
}

ts_status group_give_up(group *g, ts_status status)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", mpi.host->error_last());
    bool first = !atomic_load(&g->broken);
    group_break(g, status, text);
    if (first) tell_abort(g, text);
    pthread_mutex_lock(&mpi.lock);
    g->stuck = true;
    if (g->user_memory) mpi.dead = true;
    pthread_mutex_unlock(&mpi.lock);
    return mpi.host->fail_again(status, text);
}

char *group_scratch(group *g, size_t bytes)
{
    if (bytes <= g->scratch_bytes) return g->scratch;
    free(g->scratch);
    g->scratch = malloc(bytes);
    g->scratch_bytes = g->scratch ? bytes : 0;
    if (!g->scratch)
        mpi.host->fail(TS_ENOMEM, "out of memory: %zu bytes for a copy of the operation's data",
                       bytes);
    return g->scratch;
}

/* ---- opening --------------------------------------------------------------------------------- */

static group *allocate(const ts_backend_context *context)
{
    pthread_mutexattr_t recursive;
    group *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    g->rank = context->rank;
    g->size = context->size;
    g->timeout_ms = context->timeout_ms;
    g->collective = g->user = g->library = MPI_COMM_NULL;
    g->members = MPI_GROUP_NULL;
    g->hearing = MPI_REQUEST_NULL;
    g->name = strdup(context->group_name);
    g->arrived = calloc((size_t)g->size, sizeof *g->arrived);
    g->left_at = calloc((size_t)g->size, sizeof *g->left_at);
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&g->delivering, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_mutex_init(&g->state_lock, NULL);
    pthread_cond_init(&g->wake, NULL);
    return g;
}

static void group_free(group *g)
{
    pthread_mutex_destroy(&g->delivering);
    pthread_mutex_destroy(&g->state_lock);
    pthread_cond_destroy(&g->wake);
    free(g->scratch);
    free(g->arrived);
    free(g->left_at);
    free(g->world);
    free(g->text);
    free(g->name);
    free(g);
}

int group_global(const group *g, int rank)
{
    return g->world && rank >= 0 && rank < g->size ? g->world[rank] : rank;
}

static ts_status duplicate(group *g, MPI_Comm from)
{
    GO(g, NULL, MPI_Comm_idup(from, &g->user, &request));
    GO(g, NULL, MPI_Comm_idup(from, &g->library, &request));
    if (!process_enter()) return group_health(g, NULL);
    MPI_Comm_set_errhandler(g->collective, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(g->user, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(g->library, MPI_ERRORS_RETURN);
    bells_listen(g);
    process_leave();
    return TS_OK;
}

/* Known to the process, but without communicators. */
static ts_status begin(group **out, const ts_backend_context *context)
{
    group *g = allocate(context);
    if (!g || !g->name || !g->arrived || !g->left_at) {
        if (g) group_free(g);
        return mpi.host->fail(TS_ENOMEM, "out of memory for a group");
    }
    *out = g;
    pthread_mutex_lock(&mpi.lock);
    g->next = mpi.groups;
    mpi.groups = g;
    pthread_mutex_unlock(&mpi.lock);
    return TS_OK;
}

ts_status group_open(group **out, const ts_backend_context *context)
{
    TRY(begin(out, context));
    group *g = *out;
    GO(g, NULL, MPI_Comm_idup(MPI_COMM_WORLD, &g->collective, &request));
    return duplicate(g, MPI_COMM_WORLD);
}

ts_status group_split(group **out, const ts_backend_context *context, const group *parent,
                      const int *ranks)
{
    MPI_Group all;
    TRY(begin(out, context));
    group *g = *out;
    g->world = calloc((size_t)g->size, sizeof *g->world);
    if (!g->world) return mpi.host->fail(TS_ENOMEM, "out of memory for a group");
    for (int q = 0; q < g->size; q++) g->world[q] = group_global(parent, ranks[q]);
    if (!process_enter()) return group_health(g, NULL);
    int code = MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (code == MPI_SUCCESS) {
        code = MPI_Group_incl(all, g->size, g->world, &g->members);
        MPI_Group_free(&all);
    }
    process_leave();
    return code == MPI_SUCCESS ? TS_OK : process_error(code, "MPI_Group_incl");
}

/* MPI offers no way to do this that could be given up.  But all members are here: each has just been
 * told that all others are. */
ts_status group_join(group *g)
{
    if (!process_enter()) return group_health(g, NULL);
    int code = MPI_Comm_create_group(MPI_COMM_WORLD, g->members, SPLIT_TAG, &g->collective);
    MPI_Group_free(&g->members);
    process_leave();
    if (code != MPI_SUCCESS) return group_give_up(g, process_error(code, "MPI_Comm_create_group"));
    return duplicate(g, g->collective);
}

/* ---- closing --------------------------------------------------------------------------------- */

static bool meet(group *g, MPI_Request *barrier, int64_t ms)
{
    int done = 0;
    int64_t until = mpi.host->now_ns() + ms * 1000000;
    while (!done && !atomic_load(&g->broken) && mpi.host->now_ns() < until) {
        if (!process_enter()) return false;
        if (MPI_Test(barrier, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) done = 0;
        bells_poll(g);
        process_leave();
        if (!done) sched_yield();
    }
    return done;
}

bool group_goodbye(group *g)
{
    /* Not behind operations that others may still have to do. */
    MPI_Request barrier = MPI_REQUEST_NULL;
    bell left = {.kind = RING_LEFT, .sequence = g->last};
    if (atomic_load(&g->broken) || g->user == MPI_COMM_NULL || !process_enter()) return false;
    int code = MPI_Ibarrier(g->user, &barrier);
    process_leave();
    if (code != MPI_SUCCESS) return false;
    if (meet(g, &barrier, LEAVE_QUIETLY_MS)) return true;
    if (!process_enter()) return false;
    bells_ring(g, &left);
    process_leave();
    return meet(g, &barrier, LEAVE_MS);
}

static void unlink_group(const group *g)
{
    for (group **at = &mpi.groups; *at; at = &(*at)->next)
        if (*at == g) {
            *at = g->next;
            return;
        }
}

void group_close(group *g)
{
    messages_close(g);
    bool together = group_goodbye(g);
    if (!process_enter()) return; /* what is in flight keeps it */
    unlink_group(g);
    bells_end(g);
    bells_poll(g);
    bool joined = g->collective != MPI_COMM_NULL;
    bool free_it = !g->stuck && !g->bells && (together || !joined);
    if (g->members != MPI_GROUP_NULL) MPI_Group_free(&g->members);
    if (free_it && joined) {
        MPI_Comm_free(&g->collective);
        MPI_Comm_free(&g->user);
        MPI_Comm_free(&g->library);
    }
    process_leave();
    if (free_it) group_free(g);
}
