/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks' output goes: the console, log files, or both.
 *
 * Standard error passes through the launcher whenever it is not a terminal, so that the last line
 * of the rank that failed can be named. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch_impl.h"

/* Bits for local rank in "3" or "0:1,1:2"; -1: malformed. */
static int bits_of(const char *text, int local)
{
    int bits = 0;
    if (!text) return 0;
    if (text[0] >= '0' && text[0] <= '3' && !text[1]) return text[0] - '0';
    while (*text) {
        char *end;
        long rank = strtol(text, &end, 10);
        if (end == text || rank < 0 || *end != ':' || end[1] < '0' || end[1] > '3') return -1;
        if (rank == local) bits = end[1] - '0';
        if (end[2] && (end[2] != ',' || !end[3])) return -1;
        text = end + 2 + (end[2] == ',');
    }
    return bits;
}

/* 1 if local is in "0,2"; -1: malformed. */
static int filter_shows(const char *text, int local)
{
    int shown = !text;
    while (text && *text) {
        char *end;
        long rank = strtol(text, &end, 10);
        if (end == text || rank < 0 || (*end && *end != ',')) return -1;
        if (rank == local) shown = 1;
        text = end + (*end == ',');
    }
    return shown;
}

int launch_output_check(const ts_launch_options *opt)
{
    const char *names[] = {"redirects", "tee"}, *texts[] = {opt->redirects, opt->tee};
    for (int i = 0; i < 2; i++)
        if (bits_of(texts[i], 0) < 0) {
            fprintf(stderr, "%s: --%s is 0, 1, 2 or 3, or a list such as 0:1,1:3, not '%s'\n",
                    opt->title, names[i], texts[i]);
            return EINVAL;
        }
    if (filter_shows(opt->filter, 0) >= 0) return 0;
    fprintf(stderr, "%s: --local-ranks-filter is a list such as 0,2, not '%s'\n", opt->title,
            opt->filter);
    return EINVAL;
}

static int make_folder(const char *path)
{
    struct stat info;
    if (mkdir(path, 0777) == 0) return 0;
    if (errno != EEXIST) return errno;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
}

int launch_logs_open(launch *job)
{
    const ts_launch_options *opt = job->opt;
    const char *base = opt->log_dir, *temporary = getenv("TMPDIR");
    if (!base && !opt->redirects && !opt->tee) return 0;
    int error = base ? make_folder(base) : 0;
    snprintf(job->log_root, sizeof job->log_root, "%.256s/%s%s_XXXXXX",
             base ? base : (temporary ? temporary : "/tmp"), base ? "" : "tessera_", job->run_id);
    if (!error && !mkdtemp(job->log_root)) error = errno;
    if (error)
        launch_say(job, "cannot make the log folder %s: %s", base ? base : job->log_root,
                   strerror(error));
    else if (!opt->quiet)
        launch_say(job, "logs are in %s", job->log_root);
    return error;
}

static int open_rank_folder(launch_rank *rank, char *path, size_t size)
{
    const launch *job = rank->job;
    snprintf(path, size, "%s/attempt_%d", job->log_root, job->attempt);
    int error = make_folder(path);
    snprintf(path, size, "%s/attempt_%d/%d", job->log_root, job->attempt, rank->local);
    if (!error) error = make_folder(path);
    snprintf(rank->error_file, sizeof rank->error_file, "%s/error.json", path);
    return error;
}

static int open_log(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

typedef struct route {
    bool file, console, pipe;
} route;

/* which: 1 stdout, 2 stderr. */
static route route_of(const launch_rank *rank, int which)
{
    const ts_launch_options *opt = rank->job->opt;
    bool tee = (bits_of(opt->tee, rank->local) & which) != 0;
    bool redirect = (bits_of(opt->redirects, rank->local) & which) != 0;
    route r = {.file = tee || redirect, .console = tee || !redirect};
    if (filter_shows(opt->filter, rank->local) == 0) r.console = false;
    r.pipe = tee || (which == 2 && (r.file || !r.console || !isatty(2)));
    return r;
}

/* Opens one stream; *child is what the child writes to (-1: inherited). */
static int open_stream(launch_rank *rank, int which, const char *folder, int *child)
{
    launch_stream *s = which == 1 ? &rank->out : &rank->err;
    route r = route_of(rank, which);
    int ends[2];
    if (r.file && (s->log_fd = open_log(folder, which == 1 ? "stdout.log" : "stderr.log")) < 0)
        return errno;
    if (r.pipe) {
        if (pipe2(ends, O_CLOEXEC) != 0) return errno;
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        s->fd = ends[0];
        *child = ends[1];
        s->console_fd = r.console ? which : -1;
        if (r.file && r.console)
            snprintf(s->prefix, sizeof s->prefix,
                     "[%.32s%d]:", rank->job->opt->role ? rank->job->opt->role : "default",
                     launch_rank_number(rank));
    } else if (r.file || !r.console) {
        *child = r.file ? s->log_fd : open("/dev/null", O_WRONLY | O_CLOEXEC);
        s->log_fd = -1;
        if (*child < 0) return errno;
    }
    return 0;
}

int launch_output_open(launch_rank *rank, int child_fd[2])
{
    char folder[448] = "";
    rank->out = rank->err = (launch_stream){.rank = rank, .fd = -1, .log_fd = -1, .console_fd = -1};
    int error = *rank->job->log_root ? open_rank_folder(rank, folder, sizeof folder) : 0;
    if (!error) error = open_stream(rank, 1, folder, &child_fd[0]);
    return error ? error : open_stream(rank, 2, folder, &child_fd[1]);
}

static void write_all(int fd, const char *data, size_t size)
{
    while (size > 0 && fd >= 0) {
        ssize_t done = write(fd, data, size);
        if (done < 0 && errno != EINTR) return;
        if (done > 0) data += done, size -= (size_t)done;
    }
}

static void remember_line(launch_stream *s)
{
    size_t end = s->length, begin = 0;
    while (end > 0 && isspace((unsigned char)s->line[end - 1])) end--;
    while (begin < end && isspace((unsigned char)s->line[begin])) begin++;
    if (begin < end) snprintf(s->last, sizeof s->last, "%.*s", (int)(end - begin), s->line + begin);
}

/* Shows the collected line, whole or (too long, last) in part. */
static void flush_line(launch_stream *s)
{
    if (s->length == 0) return;
    remember_line(s);
    bool hidden = s->console_fd == 2 &&
                  launch_fold_hides(s->rank->job, launch_rank_number(s->rank), s->line, s->length);
    if (s->console_fd >= 0 && !hidden) {
        char text[sizeof s->prefix + sizeof s->line + 1];
        int length = snprintf(text, sizeof text, "%s%.*s", s->prefix, (int)s->length, s->line);
        if (*s->prefix && text[length - 1] != '\n') text[length++] = '\n';
        write_all(s->console_fd, text, (size_t)length);
    }
    s->length = 0;
}

static void take(launch_stream *s, const char *data, size_t size)
{
    write_all(s->log_fd, data, size);
    for (size_t i = 0; i < size; i++) {
        s->line[s->length++] = data[i] ? data[i] : ' ';
        if (data[i] == '\n' || s->length == sizeof s->line) flush_line(s);
    }
}

static void close_stream(launch_stream *s)
{
    if (s->fd < 0) return;
    flush_line(s);
    if (uv_handle_get_loop((uv_handle_t *)&s->poll)) uv_close((uv_handle_t *)&s->poll, NULL);
    close(s->fd);
    if (s->log_fd >= 0) close(s->log_fd);
    s->fd = s->log_fd = -1;
}

void launch_stream_read(launch_stream *s)
{
    char data[16384];
    while (s->fd >= 0) {
        ssize_t got = read(s->fd, data, sizeof data);
        if (got > 0)
            take(s, data, (size_t)got);
        else if (got == 0 || (errno != EINTR && errno != EAGAIN))
            close_stream(s);
        else if (errno == EAGAIN)
            return;
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    launch_stream_read(poll->data);
}

int launch_output_watch(launch_rank *rank)
{
    launch_stream *streams[] = {&rank->out, &rank->err};
    for (int i = 0; i < 2; i++) {
        launch_stream *s = streams[i];
        if (s->fd < 0) continue;
        if (uv_poll_init(&rank->job->loop, &s->poll, s->fd) != 0) return EIO;
        s->poll.data = s;
        if (uv_poll_start(&s->poll, UV_READABLE, on_readable) != 0) return EIO;
    }
    return 0;
}

void launch_output_close(launch_rank *rank)
{
    launch_stream *streams[] = {&rank->out, &rank->err};
    for (int i = 0; i < 2; i++) {
        launch_stream_read(streams[i]);
        close_stream(streams[i]);
    }
}
