/* SPDX-License-Identifier: Apache-2.0 */
/* The guard: a child of the launcher that reads the ranks' process ids from a pipe.  The pipe ends
 * when the launcher does, however it does; then the guard ends every group of processes that is
 * still listed, first with SIGTERM, two seconds later with SIGKILL, and removes their shared memory. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch_impl.h"

typedef struct pid_list {
    pid_t pid[4096];
    int count;
} pid_list;

static void note(pid_list *list, int32_t message)
{
    if (message > 0 && list->count < 4096) list->pid[list->count++] = message;
    for (int i = 0; message < 0 && i < list->count; i++)
        if (list->pid[i] == -message) {
            list->pid[i] = list->pid[--list->count];
            return;
        }
}

/* Signals every group; true if one is still there. */
static bool signal_all(const pid_list *list, int signal_number)
{
    bool alive = false;
    for (int i = 0; i < list->count; i++)
        if (kill(-list->pid[i], signal_number) == 0) alive = true;
    return alive;
}

_Noreturn static void guard_main(const launch *job, int fd)
{
    static pid_list list;
    int32_t message;
    ssize_t got;
    setsid();
    prctl(PR_SET_NAME, "tessera-guard");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++) dup2(null, i);
    for (int i = 3; i < 1024; i++)
        if (i != fd) close(i);
    while ((got = read(fd, &message, sizeof message)) != 0) {
        if (got == (ssize_t)sizeof message) note(&list, message);
        if (got < 0 && errno != EINTR) break;
    }
    signal_all(&list, SIGTERM);
    signal_all(&list, SIGCONT);
    for (int i = 0; i < 200 && signal_all(&list, 0); i++) usleep(10000);
    signal_all(&list, SIGKILL);
    launch_openmpi_clear(job);
    _exit(0);
}

int launch_guard_start(launch *job)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    job->guard = fork();
    if (job->guard == 0) {
        for (int i = 1; i < NSIG; i++)
            signal(i, i == SIGTERM || i == SIGINT || i == SIGHUP ? SIG_IGN : SIG_DFL);
        close(ends[1]);
        guard_main(job, ends[0]);
    }
    int error = errno;
    close(ends[0]);
    job->guard_fd = ends[1];
    return job->guard < 0 ? error : 0;
}

static void tell(const launch *job, int32_t message)
{
    while (write(job->guard_fd, &message, sizeof message) < 0 && errno == EINTR) {
    }
}

void launch_guard_add(const launch *job, pid_t pid) { tell(job, pid); }
void launch_guard_remove(const launch *job, pid_t pid) { tell(job, -pid); }

void launch_guard_end(launch *job)
{
    if (job->guard <= 0) return;
    close(job->guard_fd);
    while (waitpid(job->guard, NULL, 0) < 0 && errno == EINTR) {
    }
}
