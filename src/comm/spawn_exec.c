/* SPDX-License-Identifier: Apache-2.0 */
/* Children that are this program once more: started for an entry, which main announces. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/spawn_impl.h"

enum { ARGUMENTS_MAX = 1 << 20, ENTRY_MAX = 128 };

/* What the child finds in TESSERA_SPAWN. */
typedef struct call {
    int index, count, report_fd, arg_fd, death_signal, ranks;
    long parent;
    char run[64], entry[ENTRY_MAX];
} call;

static int write_call(char *out, size_t size, const call *c)
{
    return snprintf(out, size, TS_SPAWN_VARIABLE "=%d %d %d %d %d %d %ld %s %s", c->index, c->count,
                    c->report_fd, c->arg_fd, c->death_signal, c->ranks, c->parent, c->run,
                    c->entry);
}

static bool read_call(call *c, const char *text)
{
    return sscanf(text, "%d %d %d %d %d %d %ld %63s %127[^\n]", &c->index, &c->count, &c->report_fd,
                  &c->arg_fd, &c->death_signal, &c->ranks, &c->parent, c->run, c->entry) == 9;
}

/* The arguments of this process, in one block: pointers, then texts. */
static char **own_arguments(void)
{
    char *text = ts_calloc(1, ARGUMENTS_MAX);
    FILE *file = text ? fopen("/proc/self/cmdline", "re") : NULL;
    size_t size = file ? fread(text, 1, ARGUMENTS_MAX - 1, file) : 0, count = 0;
    if (file) fclose(file);
    for (size_t i = 0; i < size; i += strlen(text + i) + 1) count++;
    char **argv = size ? ts_calloc(1, (count + 1) * sizeof *argv + size + 1) : NULL;
    if (argv) {
        char *at = memcpy(argv + count + 1, text, size);
        for (size_t i = 0; i < count; i++, at += strlen(at) + 1) argv[i] = at;
    }
    free(text);
    return argv;
}

/* The environment and one more text. */
static char **environment_with(char *text)
{
    size_t count = 0;
    while (environ[count]) count++;
    char **env = ts_calloc(count + 2, sizeof *env);
    if (!env) return NULL;
    memcpy(env, environ, count * sizeof *env);
    env[count] = text;
    return env;
}

ts_status ts_spawn_exec(pid_t *pid, int index, int report_fd, int arg_fd, int count,
                        const char *run, const ts_spawn_options *opt)
{
    char text[512];
    posix_spawn_file_actions_t actions;
    call c = {index,      count,          report_fd, arg_fd, opt->daemon ? SIGTERM : SIGINT,
              opt->ranks, (long)getpid(), "",        ""};
    snprintf(c.run, sizeof c.run, "%s", run);
    snprintf(c.entry, sizeof c.entry, "%s", opt->entry);
    write_call(text, sizeof text, &c);
    char **argv = own_arguments(), **env = environment_with(text);
    int error = argv && env ? posix_spawn_file_actions_init(&actions) : ENOMEM;
    if (!error) {
        /* onto itself: inherited */
        error = posix_spawn_file_actions_adddup2(&actions, report_fd, report_fd);
        if (!error && arg_fd >= 0)
            error = posix_spawn_file_actions_adddup2(&actions, arg_fd, arg_fd);
        if (!error) error = posix_spawn(pid, "/proc/self/exe", &actions, NULL, argv, env);
        posix_spawn_file_actions_destroy(&actions);
    }
    free(argv);
    free(env);
    if (!error) return TS_OK;
    return ts_fail(TS_ENOMEM, "spawn: cannot start this program again: %s", strerror(error));
}

static void *read_argument(int fd)
{
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    char *arg = size > 0 ? malloc((size_t)size) : NULL;
    for (off_t at = 0; arg && at < size;) {
        ssize_t got = pread(fd, arg + at, (size_t)(size - at), at);
        if (got <= 0 && !(got < 0 && errno == EINTR)) break;
        if (got > 0) at += got;
    }
    if (fd >= 0) close(fd);
    return arg;
}

void ts_spawn_entry(const char *name, ts_spawn_fn fn)
{
    call c;
    const char *text = getenv(TS_SPAWN_VARIABLE);
    if (!name || !fn || !text || !read_call(&c, text) || strcmp(c.entry, name) != 0) return;
    unsetenv(TS_SPAWN_VARIABLE);
    ts_spawn_child_of((pid_t)c.parent, c.death_signal);
    fcntl(c.report_fd, F_SETFD, FD_CLOEXEC);
    if (c.ranks) ts_spawn_child_is_rank(c.index, c.count, c.run);
    ts_spawn_child_run(c.index, c.report_fd, fn, read_argument(c.arg_fd));
}
