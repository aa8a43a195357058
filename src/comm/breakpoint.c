/* SPDX-License-Identifier: Apache-2.0 */
/* Stops one rank for a debugger while the others wait. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/group_impl.h"

enum { HOUR_MS = 3600000, LOOK_US = 100000 };

static bool has_debugger(void)
{
    char line[256];
    int tracer = 0;
    FILE *from = fopen("/proc/self/status", "re");
    while (from && fgets(line, sizeof line, from))
        if (strncmp(line, "TracerPid:", 10) == 0) tracer = atoi(line + 10);
    if (from) fclose(from);
    return tracer != 0;
}

/* Launchers give ranks no input; a debugger in this terminal wants it. */
static void restore_terminal(void)
{
    if (isatty(0)) return;
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    dup2(fd, 0);
    close(fd);
}

static ts_status stop_here(int rank, int64_t timeout_ms)
{
    ts_deadline deadline = ts_deadline_in(timeout_ms);
    restore_terminal();
    TS_LOG(TS_LOG_COMM, TS_LEVEL_ERROR,
           "breakpoint: rank %d is process %d and waits for a debugger: gdb -p %d", rank,
           (int)getpid(), (int)getpid());
    while (!has_debugger()) {
        if (ts_deadline_passed(deadline))
            return ts_fail(TS_ETIMEOUT, "breakpoint: no debugger came to rank %d within %lld ms",
                           rank, (long long)timeout_ms);
        usleep(LOOK_US);
    }
    raise(SIGTRAP);
    return TS_OK;
}

ts_status ts_breakpoint(int rank, int skip, double timeout_s)
{
    ts_group *group;
    TS_TRY(ts_group_find(&group, NULL, "breakpoint"));
    if (rank < 0 || rank >= group->size || skip < 0 || !(timeout_s >= 0 && timeout_s < 1e9))
        return ts_fail(TS_EINVAL, "breakpoint: rank %d, skip %d or the limit is out of range", rank,
                       skip);
    if (atomic_fetch_add(&group->breakpoints, 1) < skip) return TS_OK;
    int64_t before = atomic_load(&group->timeout_ms);
    int64_t timeout_ms = timeout_s > 0 ? (int64_t)(timeout_s * 1000) : HOUR_MS;
    atomic_store(&group->timeout_ms, timeout_ms + 10000);
    ts_status status = group->rank == rank ? stop_here(rank, timeout_ms) : TS_OK;
    ts_status met = ts_barrier(group, NULL);
    atomic_store(&group->timeout_ms, before);
    return status != TS_OK ? status : met;
}
