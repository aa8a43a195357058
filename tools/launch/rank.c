/* SPDX-License-Identifier: Apache-2.0 */
/* The process of one rank. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/timing.h"
#include "launch_impl.h"

/* Everything the child needs, made before fork: after it, only calls that are safe in a copy of a
 * process with threads. */
typedef struct child_plan {
    char **argv, **env;
    int output[2];
    int error_fd, pmi_fd;
    bool pinned;
    cpu_set_t cores;
    pid_t launcher;
    char *start; /* in env: the variable of timing */
} child_plan;

/* Replaces the last 20 digits of text by the time. */
static void note_time(char *text)
{
    int64_t now = ts_now_ns();
    char *at = text + strlen(text);
    for (int i = 0; i < 20; i++, now /= 10) *--at = (char)('0' + now % 10);
}

_Noreturn static void child_main(const child_plan *plan, bool reads_stdin)
{
    sigset_t none;
    /* A group of its own, by which it is ended with all that it starts.  Not a session: Linux
     * schedules sessions against each other, and a rank that yields its core would not pass it on
     * to the other ranks.  Only a session may read a terminal that another group holds. */
    if (reads_stdin && isatty(0))
        setsid();
    else
        setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan->launcher) _exit(1);
    for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!reads_stdin) dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    for (int i = 0; i < 2; i++)
        if (plan->output[i] >= 0) dup2(plan->output[i], i + 1);
    if (plan->pmi_fd >= 0) fcntl(plan->pmi_fd, F_SETFD, 0);
    if (plan->pinned) sched_setaffinity(0, sizeof plan->cores, &plan->cores);
    if (plan->start) note_time(plan->start);
    execvpe(plan->argv[0], plan->argv, plan->env);
    int error = errno;
    if (write(plan->error_fd, &error, sizeof error) < 0) {
    }
    _exit(127);
}

static int prepare(child_plan *plan, launch_rank *rank, int error_pipe[2])
{
    int error = launch_pmi_open(rank);
    if (error) return error;
    plan->pmi_fd = rank->pmi.child_fd;
    plan->argv = launch_arguments(rank);
    plan->env = launch_environment(rank);
    if (!plan->argv || !plan->env) return ENOMEM;
    for (char **text = plan->env; *text; text++)
        if (strncmp(*text, TS_TIMING_START "=", sizeof TS_TIMING_START) == 0) plan->start = *text;
    if (pipe2(error_pipe, O_CLOEXEC) != 0) return errno;
    plan->error_fd = error_pipe[1];
    plan->pinned = launch_cores_of(&plan->cores, rank->job, rank->local);
    plan->launcher = getpid();
    return launch_output_open(rank, plan->output);
}

int launch_rank_number(const launch_rank *rank)
{
    return rank->job->opt->ranks * rank->job->opt->node_rank + rank->local;
}

int launch_rank_start(launch_rank *rank)
{
    child_plan plan = {.output = {-1, -1}};
    int error_pipe[2] = {-1, -1};
    int error = prepare(&plan, rank, error_pipe);
    if (!error) {
        pid_t pid = fork();
        if (pid == 0) child_main(&plan, rank->local == 0);
        if (pid < 0)
            error = errno;
        else
            rank->pid = pid;
    }
    for (int i = 0; i < 2; i++)
        if (plan.output[i] >= 0) close(plan.output[i]);
    if (error_pipe[1] >= 0) close(error_pipe[1]);
    launch_pmi_started(rank);
    launch_environment_free(plan.argv);
    launch_environment_free(plan.env);
    rank->exec_fd = error_pipe[0];
    if (error)
        return launch_say(rank->job, "cannot start rank %d: %s", launch_rank_number(rank),
                          strerror(error)),
               error;
    launch_guard_add(rank->job, rank->pid);
    rank->pidfd = (int)syscall(SYS_pidfd_open, rank->pid, 0);
    if (rank->pidfd < 0) {
        error = errno;
        launch_say(rank->job, "cannot watch rank %d: pidfd_open: %s", launch_rank_number(rank),
                   strerror(error));
    }
    return error;
}

int launch_rank_started(launch_rank *rank)
{
    int error = 0;
    ssize_t got;
    do got = read(rank->exec_fd, &error, sizeof error);
    while (got < 0 && errno == EINTR);
    close(rank->exec_fd);
    rank->exec_fd = -1;
    if (got != (ssize_t)sizeof error) return 0;
    const char *program = rank->job->opt->argv[0], *dot = strrchr(program, '.');
    launch_say(rank->job, "cannot execute %s: %s%s", program, strerror(error),
               dot && strcmp(dot, ".py") == 0 ? "; a Python script is run as: python3 SCRIPT" : "");
    return error;
}

void launch_rank_signal(const launch_rank *rank, int signal_number)
{
    if (rank->pid <= 0) return;
    kill(-rank->pid, signal_number);
    if (signal_number != SIGKILL) kill(-rank->pid, SIGCONT); /* a stopped rank must get it too */
}
