/* SPDX-License-Identifier: Apache-2.0 */
/* Starting children, waiting for them, ending them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tessera/group.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "comm/spawn_impl.h"

enum { MOST_CHILDREN = 4096, LOOK_MS = 200 };

/* ---- the end of children --------------------------------------------------------------------- */

static void signal_all(const ts_spawn_context *c, int signal_number)
{
    for (int i = 0; i < c->count; i++)
        if (c->child[i].running) kill(c->child[i].pid, signal_number);
}

/* What the child has reported; false: nothing. */
static bool read_report(const ts_spawn_child *child, ts_status *status, char *text, size_t size)
{
    char message[TS_SPAWN_REPORT_MAX];
    int number;
    ssize_t got = read(child->report_fd, message, sizeof message);
    if (got < (ssize_t)sizeof number) return false;
    memcpy(&number, message, sizeof number);
    snprintf(text, size, "%.*s", (int)(got - (ssize_t)sizeof number), message + sizeof number);
    *status = (ts_status)number;
    return true;
}

static void note_failure(ts_spawn_context *c, int index, int how)
{
    char said[TS_SPAWN_REPORT_MAX] = "";
    const ts_spawn_child *child = &c->child[index];
    c->failed = index;
    c->status = TS_EUSER;
    if (WIFSIGNALED(how))
        c->text = ts_asprintf("spawn: child %d (pid %d) was ended by signal %d (%s)", index,
                              (int)child->pid, WTERMSIG(how), strsignal(WTERMSIG(how)));
    else if (read_report(child, &c->status, said, sizeof said))
        c->text = ts_asprintf("spawn: child %d (pid %d) failed with exit code %d: %s", index,
                              (int)child->pid, WEXITSTATUS(how), said);
    else
        c->text = ts_asprintf("spawn: child %d (pid %d) failed with exit code %d", index,
                              (int)child->pid, WEXITSTATUS(how));
}

static void reap(ts_spawn_context *c, int index)
{
    ts_spawn_child *child = &c->child[index];
    int how = 0;
    pid_t pid = waitpid(child->pid, &how, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR)) return;
    bool interrupted = WIFSIGNALED(how) && WTERMSIG(how) == SIGINT;
    if (pid > 0 && how != 0 && !interrupted && c->failed < 0 && !c->ending)
        note_failure(c, index, how);
    child->running = false;
    c->running--;
    if (child->pidfd >= 0) close(child->pidfd);
    close(child->report_fd);
    child->pidfd = child->report_fd = -1;
}

/* Sleeps until a child may have ended, at most ms (-1: as long as it takes). */
static void sleep_for_children(const ts_spawn_context *c, int ms)
{
    struct pollfd *list = ts_calloc((size_t)c->running, sizeof *list);
    int n = 0;
    bool blind = !list;
    for (int i = 0; list && i < c->count; i++) {
        if (!c->child[i].running) continue;
        blind = blind || c->child[i].pidfd < 0;
        list[n++] = (struct pollfd){.fd = c->child[i].pidfd, .events = POLLIN};
    }
    if (blind && (ms < 0 || ms > LOOK_MS)) ms = LOOK_MS;
    poll(list, (nfds_t)n, ms);
    free(list);
}

static bool wait_all(ts_spawn_context *c, ts_deadline deadline, bool until_failure)
{
    for (;;) {
        for (int i = 0; i < c->count; i++)
            if (c->child[i].running) reap(c, i);
        if (c->running == 0 || (until_failure && c->failed >= 0)) return true;
        if (ts_deadline_passed(deadline)) return false;
        sleep_for_children(c, ts_deadline_left_ms(deadline));
    }
}

static void end_all(ts_spawn_context *c)
{
    c->ending = true;
    signal_all(c, SIGTERM);
    signal_all(c, SIGCONT);
    if (c->grace_ms > 0) wait_all(c, ts_deadline_in(c->grace_ms), false);
    signal_all(c, SIGKILL);
    wait_all(c, ts_deadline_in(0), false);
}

ts_status ts_spawn_join(ts_spawn_context *c, int64_t timeout_ms, bool *done)
{
    if (!c) return ts_fail(TS_EINVAL, "spawn_join: the context is NULL");
    if (timeout_ms < 0)
        return ts_fail(TS_EINVAL, "spawn_join: the time limit %lld ms is negative; 0 means none",
                       (long long)timeout_ms);
    bool over = wait_all(c, ts_deadline_in(timeout_ms), true);
    if (over && c->running > 0) end_all(c);
    if (done) *done = over;
    if (!over || c->failed < 0) return TS_OK;
    return ts_fail_again(c->status, c->text ? c->text : "spawn: a child failed; out of memory");
}

int ts_spawn_count(const ts_spawn_context *c) { return c->count; }

int64_t ts_spawn_pid(const ts_spawn_context *c, int index)
{
    return index >= 0 && index < c->count ? (int64_t)c->child[index].pid : -1;
}

int ts_spawn_failed(const ts_spawn_context *c) { return c->failed; }

void ts_spawn_free(ts_spawn_context *c)
{
    if (!c) return;
    if (c->running > 0) end_all(c);
    free(c->text);
    free(c);
}

/* ---- the start ------------------------------------------------------------------------------- */

/* What the children are to do. */
typedef struct job {
    const ts_spawn_options *opt;
    ts_spawn_fn fn;
    void *arg;
    int arg_fd; /* a copy of arg for entries; -1: none */
    char run[64];
} job;

static int count_threads(void)
{
    int n = 0;
#ifndef __SANITIZE_THREAD__ /* it has one of its own */
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) n += e->d_name[0] != '.';
    if (tasks) closedir(tasks);
#endif
    return n;
}

static ts_status check_fork(void)
{
    int threads = count_threads();
    if (ts_is_initialized())
        return ts_fail(TS_ESTATE, "spawn: this process has a default group; call ts_spawn before "
                                  "ts_init_process_group, or name an entry");
    if (threads > 1)
        return ts_fail(TS_ESTATE,
                       "spawn: this process has %d threads, of which a fork would keep one; call "
                       "ts_spawn before they start, or name an entry",
                       threads);
    return TS_OK;
}

static ts_status check(int nprocs, const job *j)
{
    const char *entry = j->opt->entry;
    if (nprocs < 1 || nprocs > MOST_CHILDREN)
        return ts_fail(TS_EINVAL, "spawn: %d processes; 1 .. %d can be started", nprocs,
                       MOST_CHILDREN);
    if (j->opt->grace_ms < 0)
        return ts_fail(TS_EINVAL, "spawn: grace_ms %lld is negative", (long long)j->opt->grace_ms);
    if (getenv(TS_SPAWN_VARIABLE))
        return ts_fail(TS_ESTATE, "spawn: this process was started for an entry that nobody has "
                                  "announced; call ts_spawn_entry at the begin of main");
    if ((entry != NULL) == (j->fn != NULL))
        return ts_fail(TS_EINVAL, "spawn: either a function or options.entry is needed");
    if (!entry) return check_fork();
    if (*entry && !strchr(entry, '\n') && strlen(entry) < 128) return TS_OK;
    return ts_fail(TS_EINVAL, "spawn: entry '%s' is not a name of 1 to 127 characters", entry);
}

static ts_status copy_argument(job *j)
{
    const char *from = j->arg;
    size_t left = j->opt->entry && j->arg ? j->opt->arg_bytes : 0;
    if (left == 0) return TS_OK;
    j->arg_fd = memfd_create("ts-spawn", MFD_CLOEXEC);
    while (j->arg_fd >= 0 && left > 0) {
        ssize_t done = write(j->arg_fd, from, left);
        if (done < 0 && errno != EINTR) break;
        if (done > 0) from += done, left -= (size_t)done;
    }
    if (left == 0) return TS_OK;
    return ts_fail(TS_ENOMEM, "spawn: cannot copy an argument of %zu bytes: %s", j->opt->arg_bytes,
                   strerror(errno));
}

_Noreturn static void forked(ts_spawn_context *c, int index, int report_fd, pid_t parent,
                             const job *j)
{
    ts_spawn_child_of(parent, j->opt->daemon ? SIGTERM : SIGINT);
    for (int i = 0; i <= index; i++) {
        if (c->child[i].pidfd >= 0) close(c->child[i].pidfd);
        if (c->child[i].report_fd >= 0) close(c->child[i].report_fd);
    }
    if (j->opt->ranks) ts_spawn_child_is_rank(index, c->count, j->run);
    free(c); /* the parent's */
    ts_spawn_child_run(index, report_fd, j->fn, j->arg);
}

static ts_status start_child(ts_spawn_context *c, int index, const job *j)
{
    ts_spawn_child *child = &c->child[index];
    int ends[2];
    ts_status status = TS_OK;
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0) return ts_fail(TS_ENOMEM, "spawn: pipe: %s", strerror(errno));
    child->report_fd = ends[0];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (j->opt->entry) {
        status = ts_spawn_exec(&child->pid, index, ends[1], j->arg_fd, c->count, j->run, j->opt);
    } else {
        fflush(NULL); /* or what is buffered would be written twice */
        child->pid = fork();
        if (child->pid == 0) forked(c, index, ends[1], parent, j);
        if (child->pid < 0) status = ts_fail(TS_ENOMEM, "spawn: fork: %s", strerror(errno));
    }
    close(ends[1]);
    if (status != TS_OK) {
        child->pid = 0;
        close(ends[0]);
        child->report_fd = -1;
        return status;
    }
    child->pidfd =
        (int)syscall(SYS_pidfd_open, child->pid, 0); /* -1: it is looked after in turns */
    child->running = true;
    c->running++;
    return TS_OK;
}

static ts_status start_all(ts_spawn_context **out, int nprocs, job *j)
{
    static atomic_int number;
    ts_spawn_context *c = ts_calloc(1, sizeof *c + (size_t)nprocs * sizeof c->child[0]);
    if (!c) return ts_fail_memory((size_t)nprocs * sizeof c->child[0], "spawned processes");
    c->count = nprocs;
    c->failed = -1;
    c->grace_ms = j->opt->grace_ms;
    for (int i = 0; i < nprocs; i++) c->child[i].pidfd = c->child[i].report_fd = -1;
    snprintf(j->run, sizeof j->run, "spawn-%d-%d-%llx", (int)getpid(), atomic_fetch_add(&number, 1),
             (unsigned long long)ts_now_ns());
    ts_status status = copy_argument(j);
    for (int i = 0; i < nprocs && status == TS_OK; i++) status = start_child(c, i, j);
    if (j->arg_fd >= 0) close(j->arg_fd);
    if (status == TS_OK) {
        *out = c;
        return TS_OK;
    }
    char *why = ts_strdup(ts_error_last());
    ts_spawn_free(c);
    ts_fail_again(status, why ? why : ts_status_text(status));
    free(why);
    return status;
}

ts_status ts_spawn(ts_spawn_context **out, int nprocs, const ts_spawn_options *options,
                   ts_spawn_fn fn, void *arg)
{
    ts_spawn_options opt = TS_SPAWN_OPTIONS_INIT;
    ts_spawn_context *c = NULL;
    TS_TRY(ts_options_read(&opt, sizeof opt, options, "spawn"));
    job j = {.opt = &opt, .fn = fn, .arg = arg, .arg_fd = -1};
    TS_TRY(check(nprocs, &j));
    TS_TRY(start_all(&c, nprocs, &j));
    if (out) {
        *out = c;
        return TS_OK;
    }
    ts_status status = ts_spawn_join(c, 0, NULL);
    ts_spawn_free(c);
    return status;
}
