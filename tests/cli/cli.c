/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "paths.h"

static double seconds(void) { return (double)ts_now_ns() * 1e-9; }

static size_t read_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, out, size - 1);
    if (fd >= 0) close(fd);
    if (got < 0) got = 0;
    out[got] = 0;
    return (size_t)got;
}

void cli_start(ts_test *test, cli_job *job, const char *line)
{
    static int number;
    char command[8192];
    posix_spawn_file_actions_t actions;
    memset(job, 0, sizeof *job);
    number++;
    snprintf(job->out_path, sizeof job->out_path, "%s/out%d", test->dir, number);
    snprintf(job->err_path, sizeof job->err_path, "%s/err%d", test->dir, number);
    snprintf(command, sizeof command, "cd '%s' && exec %s", test->dir, line);
    char *argv[] = {"sh", "-c", command, NULL};
    setenv("T", TS_BINARY_DIR "/bin/tessera", 1);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, job->out_path, O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, job->err_path, O_WRONLY | O_CREAT, 0600);
    job->started = seconds();
    if (posix_spawn(&job->pid, "/bin/sh", &actions, NULL, argv, environ) != 0) job->pid = -1;
    posix_spawn_file_actions_destroy(&actions);
}

void cli_wait(cli_job *job)
{
    int status = 0;
    while (waitpid(job->pid, &status, 0) < 0 && errno == EINTR) {
    }
    job->seconds = seconds() - job->started;
    job->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    read_file(job->out_path, job->out, sizeof job->out);
    read_file(job->err_path, job->err, sizeof job->err);
}

void cli_run(ts_test *test, cli_job *job, const char *line)
{
    cli_start(test, job, line);
    cli_wait(job);
}

static bool has_mark(const char *pid, const char *mark)
{
    char path[300], text[16384];
    snprintf(path, sizeof path, "/proc/%s/environ", pid); /* empty for zombies */
    size_t size = read_file(path, text, sizeof text);
    for (size_t i = 0; i < size; i += strlen(text + i) + 1)
        if (strcmp(text + i, mark) == 0) return true;
    return false;
}

int cli_count_marked(const char *mark)
{
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && has_mark(e->d_name, mark)) count++;
    if (proc) closedir(proc);
    return count;
}

int cli_wait_marked(const char *mark, int n, double limit)
{
    double start = seconds();
    int count;
    while ((count = cli_count_marked(mark)) != n && seconds() - start < limit) usleep(20000);
    return count;
}

void cli_need_plugin(ts_test *test, const char *plugin)
{
    char path[512];
    snprintf(path, sizeof path, "%s/lib/tessera/libtessera_%s.so", TS_BINARY_DIR, plugin);
    if (access(path, R_OK) != 0)
        ts_test_skip(test, "libtessera_%s.so is not in this build", plugin);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    ts_test_skip(test, "not under sanitizers: MPI itself does not pass them");
#endif
}

int cli_count_text(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) n++;
    return n;
}
