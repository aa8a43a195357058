/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts as network namespaces that are joined by a bridge.  Named after an id; needs root and ip. */
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "faults.h"

static bool sh(const char *format, ...) TS_PRINTF(1, 2);
static bool sh(const char *format, ...)
{
    char command[400];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(command, sizeof command, format, args);
    va_end(args);
    snprintf(command + n, sizeof command - (size_t)n, " >/dev/null 2>&1");
    return system(command) == 0;
}

static bool add_host(int id, int i)
{
    return sh("ip netns add tf%d-%d", id, i) && sh("ip -n tf%d-%d link set lo up", id, i) &&
           sh("ip -n tf%d-%d link add ts0 type veth peer name port%d netns tf%d-br", id, i, i,
              id) &&
           sh("ip -n tf%d-br link set port%d master br0 up", id, i) &&
           sh("ip -n tf%d-%d addr add 10.78.0.%d/24 dev ts0", id, i, i + 1) &&
           sh("ip -n tf%d-%d link set ts0 up", id, i);
}

bool lab_set_up(int id)
{
    bool ok = sh("ip netns add tf%d-br", id) && sh("ip -n tf%d-br link add br0 type bridge", id) &&
              sh("ip -n tf%d-br link set br0 up", id);
    for (int i = 0; i < MOST_HOSTS && ok; i++) ok = add_host(id, i);
    return ok;
}

void lab_tear_down(int id)
{
    for (int i = 0; i < MOST_HOSTS; i++) sh("ip netns del tf%d-%d", id, i);
    sh("ip netns del tf%d-br", id);
}

bool lab_available(void)
{
    bool ok = lab_set_up((int)getpid());
    lab_tear_down((int)getpid());
    return ok;
}

bool lab_enter(int id, int host)
{
    char path[64];
    snprintf(path, sizeof path, "/run/netns/tf%d-%d", id, host);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    if (fd >= 0) close(fd);
    return ok;
}

/* Beyond the host's own end of the wire, so that nothing tells it. */
bool lab_cut(int id, int host, bool cut)
{
    return sh("ip -n tf%d-br link set port%d %s", id, host, cut ? "nomaster" : "master br0");
}

/* Packets are late, and lost where the queue is full; netem is not in every kernel. */
bool lab_slow_down(int id, int host)
{
    char tc[64];
    snprintf(tc, sizeof tc, "ip netns exec tf%d-%d tc qdisc add dev ts0 root", id, host);
    return sh("%s netem delay 10ms 5ms loss 1%%", tc) ||
           sh("%s tbf rate 200mbit burst 16kb latency 5ms", tc);
}
