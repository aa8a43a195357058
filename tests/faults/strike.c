/* SPDX-License-Identifier: Apache-2.0 */
/* The fault, as it befalls the victim's process. */
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "faults.h"

static bool is_socket(int fd)
{
    int type;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

/* Any socket of the process: a link to a rank, a listener, the store's. */
static void shut_some_socket(uint64_t seed)
{
    int found[256], n = 0;
    dice d = {seed ^ 0x50c7};
    for (int fd = 3; fd < 1024 && n < 256; fd++)
        if (is_socket(fd)) found[n++] = fd;
    if (n > 0) shutdown(found[dice_below(&d, n)], SHUT_RDWR);
}

void strike(const plan *p, board *b, ts_group *group)
{
    usleep((useconds_t)p->delay_us);
    if (fault_flags(p->fault) & NETWORK)
        b->network_is_due = true;
    else
        b->fault_ns = ts_now_ns();
    switch (p->fault) {
    case FAULT_KILL: kill(getpid(), SIGKILL); break;
    case FAULT_EXIT: _exit(0); break;
    case FAULT_FREEZE:
    case FAULT_THAW:
    case FAULT_PAUSE: kill(getpid(), SIGSTOP); break;
    case FAULT_ABORT: ts_abort_process_group(group); break;
    case FAULT_SHUT: shut_some_socket(p->seed); break;
    default: break;
    }
}
