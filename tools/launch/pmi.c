/* SPDX-License-Identifier: Apache-2.0 */
/* The server side of PMI-1, through which programs of MPICH and its kin find each other: lines of
 * "cmd=... key=value ..." over a socket per rank.  What ranks put, all can get after a barrier. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "launch_impl.h"

enum { VALUE_MAX = 1024, KEY_MAX = 64, REPLY_MAX = VALUE_MAX + 128 };

int launch_pmi_open(launch_rank *rank)
{
    int ends[2];
    launch_pmi *p = &rank->pmi;
    p->fd = p->child_fd = -1;
    if (!rank->job->opt->mpi || strcmp(rank->job->opt->mpi, "mpich") != 0) return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
    p->fd = ends[0];
    p->child_fd = ends[1];
    return 0;
}

void launch_pmi_started(launch_rank *rank)
{
    if (rank->pmi.child_fd >= 0) close(rank->pmi.child_fd);
    rank->pmi.child_fd = -1;
}

void launch_pmi_close(launch_rank *rank)
{
    launch_pmi *p = &rank->pmi;
    if (p->fd < 0) return;
    if (p->watched) uv_close((uv_handle_t *)&p->poll, NULL);
    close(p->fd);
    p->fd = -1;
}

void launch_pmi_forget(launch *job)
{
    for (int64_t i = 0; i < job->pmi_values.count; i++) free(job->pmi_values.entry[i].value);
    ts_map_fini(&job->pmi_values);
    job->pmi_values = (ts_map){.entry = NULL};
    job->pmi_waiting = 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void reply(launch_rank *rank, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void reply(launch_rank *rank, const char *format, ...)
{
    char text[REPLY_MAX];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text - 1, format, args);
    va_end(args);
    if (length < 0 || length >= (int)sizeof text - 1) length = (int)sizeof text - 2;
    text[length++] = '\n';
    for (int done = 0; done < length && rank->pmi.fd >= 0;) {
        ssize_t sent = send(rank->pmi.fd, text + done, (size_t)(length - done), MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) return;
        if (sent > 0) done += (int)sent;
    }
}

/* The value of key in a line "cmd=put key=value", up to the next blank; false: it is not there. */
static bool field(char *out, size_t size, const char *line, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = line; at; at = strchr(at, ' ')) {
        if (*at == ' ') at++;
        if (strncmp(at, key, length) != 0 || at[length] != '=') continue;
        size_t n = strcspn(at + length + 1, " \n");
        if (n >= size) return false;
        memcpy(out, at + length + 1, n);
        out[n] = '\0';
        return true;
    }
    return false;
}

static void put(launch_rank *rank, const char *line)
{
    char key[KEY_MAX + 1], value[VALUE_MAX + 1];
    ts_map *values = &rank->job->pmi_values;
    char *copy = NULL;
    bool good = field(key, sizeof key, line, "key") && field(value, sizeof value, line, "value");
    if (good) {
        free(ts_map_get(values, key));
        copy = ts_strdup(value);
        good = copy && ts_map_set(values, key, copy);
    }
    reply(rank, "cmd=put_result rc=%d msg=%s", good ? 0 : -1, good ? "success" : "not_stored");
}

static void get(launch_rank *rank, const char *line)
{
    char key[KEY_MAX + 1], mapping[64];
    const char *value = NULL;
    snprintf(mapping, sizeof mapping, "(vector,(0,1,%d))", rank->job->opt->ranks);
    if (field(key, sizeof key, line, "key"))
        value = strcmp(key, "PMI_process_mapping") == 0 ? mapping
                                                        : ts_map_get(&rank->job->pmi_values, key);
    if (value)
        reply(rank, "cmd=get_result rc=0 msg=success value=%s", value);
    else
        reply(rank, "cmd=get_result rc=-1 msg=key_not_found value=unknown");
}

static void barrier(launch_rank *rank)
{
    launch *job = rank->job;
    if (++job->pmi_waiting < job->opt->ranks) return;
    job->pmi_waiting = 0;
    for (int i = 0; i < job->opt->ranks; i++) reply(&job->rank[i], "cmd=barrier_out");
}

static void answer(launch_rank *rank, const char *line)
{
    char command[32] = "";
    field(command, sizeof command, line, "cmd");
    if (strcmp(command, "init") == 0)
        reply(rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    else if (strcmp(command, "get_maxes") == 0)
        reply(rank, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d", KEY_MAX, KEY_MAX,
              VALUE_MAX);
    else if (strcmp(command, "get_appnum") == 0)
        reply(rank, "cmd=appnum appnum=0");
    else if (strcmp(command, "get_my_kvsname") == 0)
        reply(rank, "cmd=my_kvsname kvsname=tessera");
    else if (strcmp(command, "get_universe_size") == 0)
        reply(rank, "cmd=universe_size size=%d rc=0", rank->job->opt->ranks);
    else if (strcmp(command, "put") == 0)
        put(rank, line);
    else if (strcmp(command, "get") == 0)
        get(rank, line);
    else if (strcmp(command, "barrier_in") == 0)
        barrier(rank);
    else if (strcmp(command, "finalize") == 0)
        reply(rank, "cmd=finalize_ack rc=0");
    else if (strcmp(command, "abort") != 0) /* the rank ends by itself */
        reply(rank, "cmd=%s_result rc=-1 msg=not_offered", command);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void take(launch_rank *rank, const char *data, size_t size)
{
    launch_pmi *p = &rank->pmi;
    for (size_t i = 0; i < size; i++) {
        if (data[i] != '\n') {
            if (p->length < sizeof p->line - 1) p->line[p->length++] = data[i];
            continue;
        }
        p->line[p->length] = '\0';
        p->length = 0;
        answer(rank, p->line);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    char data[4096];
    launch_rank *rank = poll->data;
    (void)status, (void)events;
    ssize_t got = recv(rank->pmi.fd, data, sizeof data, MSG_DONTWAIT);
    if (got > 0)
        take(rank, data, (size_t)got);
    else if (got == 0 || (errno != EINTR && errno != EAGAIN))
        launch_pmi_close(rank);
}

int launch_pmi_watch(launch_rank *rank)
{
    launch_pmi *p = &rank->pmi;
    if (p->fd < 0) return 0;
    p->poll.data = rank;
    if (uv_poll_init(&rank->job->loop, &p->poll, p->fd) != 0) return EIO;
    p->watched = true;
    return uv_poll_start(&p->poll, UV_READABLE, on_readable) == 0 ? 0 : EIO;
}
