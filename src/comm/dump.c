/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps on demand, on failure, by signal and by pipe.  The handler of the signal only writes to an
 * eventfd; a thread of the library does the rest, for all ranks of the process. */
#include "comm/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"
#include "base/thread.h"
#include "comm/nccl_variables.h"

enum { MOST_PIPES = 64, PAUSE_NS = 1000000000 };

static _Atomic(ts_dump_writer) writer;
static _Atomic(void *) writer_user;

ts_status ts_register_dump_writer(ts_dump_writer fn, void *user)
{
    ts_dump_writer none = NULL;
    if (!fn) return ts_fail(TS_EINVAL, "register_dump_writer: the function is missing (NULL)");
    atomic_store(&writer_user, user);
    if (!atomic_compare_exchange_strong(&writer, &none, fn))
        return ts_fail(TS_ESTATE, "register_dump_writer: there is a writer already");
    return TS_OK;
}

/* ---- making ---------------------------------------------------------------------------------- */

static ts_status dump_text(char **json, size_t *size, const ts_recorder *r,
                           const ts_dump_options *opt)
{
    FILE *to = open_memstream(json, size);
    if (!to) return ts_fail_memory(4096, "a dump");
    ts_status status = ts_recorder_write(to, ts_recorder_memory_of(r), opt);
    if (fclose(to) != 0 && status == TS_OK) status = ts_fail_memory(*size, "a dump");
    if (status != TS_OK) {
        free(*json);
        *json = NULL;
    }
    return status;
}

static ts_status own_recorder(ts_recorder **out, const char *what)
{
    *out = ts_recorder_of_rank();
    if (*out) return TS_OK;
    return ts_fail(TS_ESTATE, "%s: the flight recorder is off (TESSERA_RECORDER_ENTRIES=0)", what);
}

ts_status ts_flight_recorder_dump(char **json, const ts_dump_options *opt)
{
    ts_recorder *r;
    size_t size;
    if (!json) return ts_fail(TS_EINVAL, "flight_recorder_dump: json is missing (NULL)");
    TS_TRY(own_recorder(&r, "flight_recorder_dump"));
    return dump_text(json, &size, r, opt);
}

ts_status ts_flight_recorder_reset(void)
{
    ts_recorder *r;
    TS_TRY(own_recorder(&r, "flight_recorder_reset"));
    ts_recorder_forget(r);
    return TS_OK;
}

/* Complete or not there: readers may look at any time. */
static ts_status write_file(const char *path, const char *text, size_t size)
{
    char *part = ts_asprintf("%s.%d.part", path, (int)getpid());
    if (!part) return ts_fail_memory(strlen(path), "a path");
    FILE *to = fopen(part, "we");
    bool good = to && fwrite(text, 1, size, to) == size;
    int error = errno;
    if (to && fclose(to) != 0) good = false;
    if (good && rename(part, path) != 0) {
        good = false;
        error = errno;
    }
    if (!good && to) unlink(part);
    free(part);
    return good ? TS_OK : ts_fail(TS_EIO, "dump to %s: %s", path, strerror(error));
}

static ts_status dump_to(const ts_recorder *r, const char *path, const ts_dump_options *opt)
{
    char *json;
    size_t size;
    int rank = atomic_load(&ts_recorder_memory_of(r)->rank);
    TS_TRY(dump_text(&json, &size, r, opt));
    ts_dump_writer fn = atomic_load(&writer);
    char named[1024];
    if (!path) {
        const char *prefix = ts_env_dump_prefix();
        snprintf(named, sizeof named, "%s%d", *prefix ? prefix : "/tmp/nccl_trace_rank_", rank);
    }
    ts_status status = fn && !path ? fn(rank, json, size, atomic_load(&writer_user))
                                   : write_file(path ? path : named, json, size);
    if (status == TS_OK && !(fn && !path))
        TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING, "flight recorder written to %s", path ? path : named);
    free(json);
    return status;
}

ts_status ts_flight_recorder_dump_file(const char *path, const ts_dump_options *opt)
{
    ts_recorder *r;
    TS_TRY(own_recorder(&r, "flight_recorder_dump_file"));
    return dump_to(r, path, opt);
}

/* ---- on failure ------------------------------------------------------------------------------ */

static bool wanted(void)
{
    bool set, on = false;
    set = ts_env_is_set(TS_ENV_DUMP, &on);
    if (set) return on;
    return *ts_env_dump_prefix() || atomic_load(&writer);
}

static bool ends_a_group(ts_status status)
{
    return status == TS_ETIMEOUT || status == TS_ENETWORK || status == TS_EBACKEND ||
           status == TS_EMISMATCH || status == TS_EREMOTE || status == TS_EABORTED;
}

void ts_dump_after_failure(ts_recorder *r, ts_status status)
{
    /* One failure makes many. */
    if (!r || !ends_a_group(status) || !wanted() || !ts_recorder_may_dump(r, PAUSE_NS)) return;
    char *text = ts_strdup(ts_error_last());
    dump_to(r, NULL, NULL);
    ts_fail_again(status, text ? text : ts_status_text(status));
    free(text);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    bool runs;
    int wake; /* eventfd: the signal has come, or there is another pipe */
    int pipe[MOST_PIPES], rank[MOST_PIPES];
    int pipes;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = -1};

static _Atomic int signal_fd = -1;
static _Atomic bool signalled;

static void on_signal(int number)
{
    int saved = errno;
    uint64_t one = 1;
    (void)number;
    atomic_store(&signalled, true);
    ssize_t written = write(atomic_load(&signal_fd), &one, sizeof one);
    (void)written;
    errno = saved;
}

static void dump_one(ts_recorder *r, void *user)
{
    const int *rank = user;
    if (rank && atomic_load(&ts_recorder_memory_of(r)->rank) != *rank) return;
    if (dump_to(r, NULL, NULL) != TS_OK)
        TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING, "%s", ts_error_last());
}

static void drain(int fd)
{
    char bytes[256];
    while (read(fd, bytes, sizeof bytes) > 0) {
    }
}

static void watch_main(void *unused)
{
    (void)unused;
    for (;;) {
        struct pollfd fds[MOST_PIPES + 1];
        int rank[MOST_PIPES];
        pthread_mutex_lock(&watch.lock);
        int n = watch.pipes;
        fds[n] = (struct pollfd){.fd = watch.wake, .events = POLLIN};
        for (int i = 0; i < n; i++) {
            fds[i] = (struct pollfd){.fd = watch.pipe[i], .events = POLLIN};
            rank[i] = watch.rank[i];
        }
        pthread_mutex_unlock(&watch.lock);
        if (poll(fds, (nfds_t)n + 1, -1) < 0) continue;
        for (int i = 0; i <= n; i++)
            if (fds[i].revents & POLLIN) drain(fds[i].fd);
        if (atomic_exchange(&signalled, false)) ts_recorder_each(dump_one, NULL);
        for (int i = 0; i < n; i++)
            if (fds[i].revents & POLLIN) ts_recorder_each(dump_one, &rank[i]);
    }
}

/* With the lock held. */
static ts_status start_thread(void)
{
    pthread_t thread;
    if (watch.runs) return TS_OK;
    if (watch.wake < 0) watch.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch.wake < 0) return ts_fail(TS_EIO, "dump thread: eventfd: %s", strerror(errno));
    atomic_store(&signal_fd, watch.wake);
    TS_TRY(ts_thread_start(&thread, "ts-dump", watch_main, NULL));
    pthread_detach(thread);
    watch.runs = true;
    return TS_OK;
}

ts_status ts_dump_on_signal(int number)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_mutex_lock(&watch.lock);
    ts_status status = start_thread();
    pthread_mutex_unlock(&watch.lock);
    TS_TRY(status);
    sigemptyset(&action.sa_mask);
    if (sigaction(number, &action, NULL) == 0) return TS_OK;
    return ts_fail(TS_EINVAL, "dump_on_signal (TESSERA_DUMP_SIGNAL): signal %d: %s", number,
                   strerror(errno));
}

static int signal_by_name(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } names[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}, {"QUIT", SIGQUIT}};
    if (strncasecmp(name, "SIG", 3) == 0) name += 3;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i].name) == 0) return names[i].number;
    int64_t number;
    return ts_parse_int(&number, name) == TS_OK && number > 0 && number < NSIG ? (int)number : -1;
}

/* A pipe that this rank can be asked through. */
static ts_status add_pipe(const char *prefix, int rank)
{
    char path[1024];
    ts_status status = TS_OK;
    snprintf(path, sizeof path, "%s%d.pipe", prefix, rank);
    if (mkfifo(path, 0600) != 0 && errno != EEXIST)
        return ts_fail(TS_EIO, "dump pipe %s (TESSERA_DUMP_PIPE): %s", path, strerror(errno));
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return ts_fail(TS_EIO, "dump pipe %s (TESSERA_DUMP_PIPE): %s", path, strerror(errno));
    pthread_mutex_lock(&watch.lock);
    bool known = watch.pipes == MOST_PIPES;
    for (int i = 0; i < watch.pipes; i++) known |= watch.rank[i] == rank;
    if (!known) {
        status = start_thread();
        if (status == TS_OK) {
            uint64_t one = 1;
            watch.pipe[watch.pipes] = fd;
            watch.rank[watch.pipes++] = rank;
            if (write(watch.wake, &one, sizeof one) < 0) status = TS_OK;
        }
    }
    pthread_mutex_unlock(&watch.lock);
    if (known || status != TS_OK) close(fd);
    return status;
}

ts_status ts_dump_watch(int rank)
{
    const char *name = ts_setting_string(TS_SETTING_DUMP_SIGNAL), *prefix = ts_env_pipe_prefix();
    int number = signal_by_name(name);
    if (*name && number <= 0)
        return ts_fail(TS_EINVAL, "TESSERA_DUMP_SIGNAL: '%s' is not a signal, such as USR1", name);
    if (*name) TS_TRY(ts_dump_on_signal(number));
    return *prefix ? add_pipe(prefix, rank) : TS_OK;
}
