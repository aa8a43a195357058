/* SPDX-License-Identifier: Apache-2.0 */
/* One job from the outside: starts its processes, watches the clock, cleans up. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

/* Seconds that the other ranks get after one has failed, and processes after the test is over. */
#define FAILED_GRACE 10.0
#define LEFT_GRACE 1.0

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIME_SCALE 5.0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TIME_SCALE 5.0
#endif
#endif
#ifndef TIME_SCALE
#define TIME_SCALE 1.0
#endif

typedef struct watcher {
    ts_job *job;
    pid_t pid[TS_TEST_MAX_RANKS];
    bool over[TS_TEST_MAX_RANKS];
    int processes, running;
    bool failed, skipped;
    sigset_t former_mask;
} watcher;

static double seconds(void) { return (double)ts_now_ns() * 1e-9; }

double ts_job_time_limit(const ts_job *job)
{
    return (job->c->timeout_s > 0 ? job->c->timeout_s : 30.0) * TIME_SCALE;
}

ts_status ts_job_open(ts_job *job)
{
    const char *base = getenv("TMPDIR");
    job->ranks = job->c->ranks > 0 ? job->c->ranks : 1;
    snprintf(job->root, sizeof job->root, "%.40s/tessera-test-XXXXXX",
             base && strlen(base) < 40 ? base : "/tmp");
    if (job->ranks > TS_TEST_MAX_RANKS || !mkdtemp(job->root)) return TS_EIO;
    snprintf(job->dir, sizeof job->dir, "%s/dir", job->root);
    size_t bytes = sizeof *job->seat * (size_t)job->ranks;
    job->seat = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return mkdir(job->dir, 0700) == 0 && job->seat != MAP_FAILED ? TS_OK : TS_EIO;
}

void ts_job_close(ts_job *job)
{
    ts_remove_tree(job->root);
    munmap(job->seat, sizeof *job->seat * (size_t)job->ranks);
}

static void start_process(watcher *w, int rank)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        sigprocmask(SIG_SETMASK, &w->former_mask, NULL);
        exit(w->job->threads ? ts_job_run_threads(w->job) : ts_job_run_rank(w->job, rank));
    }
    w->pid[rank] = pid;
    if (pid > 0)
        w->running++;
    else
        w->over[rank] = w->failed = true;
}

static void process_ended(watcher *w, int i, int status)
{
    w->over[i] = true;
    w->running--;
    if (WIFEXITED(status) && WEXITSTATUS(status) == TS_EXIT_SKIPPED)
        w->skipped = true;
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        w->failed = true;
    if (WIFSIGNALED(status))
        fprintf(stderr, "[rank%d] ended by signal %d (%s)\n", i, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else if (WIFEXITED(status) && WEXITSTATUS(status) > 1 && !w->skipped)
        fprintf(stderr, "[rank%d] ended with exit status %d\n", i, WEXITSTATUS(status));
}

/* Collects what has ended, adopted grandchildren too. */
static void collect(watcher *w)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < w->processes; i++)
            if (w->pid[i] == pid && !w->over[i]) process_ended(w, i, status);
}

static bool some_seat_failed(const ts_job *job)
{
    for (int i = 0; i < job->ranks; i++)
        if (job->seat[i].state == TS_SEAT_FAILED) return true;
    return false;
}

static void report_seats(const ts_job *job)
{
    static const char *const text[] = {"has not started", "is joining the group",
                                       "is running",      "is leaving the group",
                                       "is done",         "has failed"};
    for (int i = 0; i < job->ranks; i++) {
        const ts_test_seat *seat = &job->seat[i];
        fprintf(stderr, "  rank %d %s", i, text[seat->state]);
        if (seat->line) fprintf(stderr, ", last check at %s:%d", job->c->file, (int)seat->line);
        if (seat->meeting[0]) fprintf(stderr, ", waits in ts_test_meet \"%s\"", seat->meeting);
        fprintf(stderr, "\n");
    }
}

static volatile sig_atomic_t told_to_end;

static void on_term(int signal_number)
{
    (void)signal_number;
    told_to_end = 1;
}

/* Waits until all processes have ended, the limit has passed, or a failure's grace has. */
static void wait_for_ranks(watcher *w)
{
    double limit = ts_job_time_limit(w->job), start = seconds(), failed_at = 0;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    while (collect(w), w->running > 0 && !w->skipped && !told_to_end) {
        double now = seconds();
        if (now - start > limit) {
            fprintf(stderr, "the time limit of %g s has passed:\n", limit);
            report_seats(w->job);
            w->failed = true;
            return;
        }
        if (!failed_at && (w->failed || some_seat_failed(w->job))) failed_at = now;
        if (failed_at && now - failed_at > FAILED_GRACE) {
            fprintf(stderr, "%g s after the first failure:\n", FAILED_GRACE);
            report_seats(w->job);
            w->failed = true;
            return;
        }
        sigtimedwait(&child, NULL, &(struct timespec){0, 20000000});
    }
}

/* Reports processes that outlive the test, and ends everything below this process. */
static void end_children(watcher *w)
{
    pid_t left[64];
    int count;
    bool forced = w->running > 0;
    for (double start = seconds(); !forced && seconds() - start < LEFT_GRACE; usleep(5000)) {
        collect(w);
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD) return;
    }
    while ((count = ts_list_children(left, 64)) > 0) {
        for (int i = 0; i < count; i++) {
            char name[160];
            ts_process_name(name, sizeof name, left[i]);
            if (!forced) {
                fprintf(stderr, "the test left process %d behind: %s\n", (int)left[i], name);
                w->failed = true;
            }
            kill(left[i], SIGKILL);
            waitpid(left[i], NULL, 0);
        }
    }
}

int ts_job_watch(ts_job *job)
{
    watcher w = {.job = job, .processes = job->threads ? 1 : job->ranks};
    pid_t parent = getppid();
    setpgid(0, 0);
    signal(SIGTERM, on_term);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (getppid() != parent) return TS_EXIT_FAILED;
    if (job->c->skip_unless && !ts_program_exists(job->c->skip_unless)) {
        fprintf(stderr, "%s is not installed\n", job->c->skip_unless);
        return TS_EXIT_SKIPPED;
    }
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &w.former_mask);
    for (int i = 0; i < w.processes; i++) start_process(&w, i);
    wait_for_ranks(&w);
    end_children(&w);
    return w.failed || told_to_end ? TS_EXIT_FAILED : w.skipped ? TS_EXIT_SKIPPED : TS_EXIT_PASSED;
}
