/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "comm/bootstrap.h"
#include "net/socket.h"

static void read_line(char *out, size_t size, const char *path)
{
    snprintf(out, size, "?");
    FILE *file = fopen(path, "re");
    if (!file) return;
    if (fgets(out, (int)size, file)) out[strcspn(out, "\n")] = '\0';
    fclose(file);
}

static void read_link(char *out, size_t size, const char *path)
{
    ssize_t n = readlink(path, out, size - 1);
    snprintf(n > 0 ? out + n : out, n > 0 ? 1 : size, "%s", n > 0 ? "" : "?");
}

const char *ts_host_override(const ts_engine_options *opt)
{
    return opt->host_id ? opt->host_id : ts_setting_string(TS_SETTING_HOST_ID);
}

/* Abstract socket names belong to a network namespace, process numbers to one of their own. */
void ts_host_identity(char *out, size_t size, const ts_engine_options *opt)
{
    char boot[64], net[40], pid[40];
    const char *setting = ts_host_override(opt);
    if (*setting) {
        snprintf(out, size, "%s", setting);
        for (char *c = out; *c; c++)
            if (*c == '\n') *c = ' ';
        return;
    }
    read_line(boot, sizeof boot, "/proc/sys/kernel/random/boot_id");
    read_link(net, sizeof net, "/proc/self/ns/net");
    read_link(pid, sizeof pid, "/proc/self/ns/pid");
    snprintf(out, size, "%s %s %s", boot, net, pid);
}

/* The interface that was asked for; else the address that looks toward the master, else toward the
 * world (192.0.2.1 stands for any far host, nothing is sent); else this host alone. */
ts_status ts_host_address(char out[128])
{
    char ifname[64];
    const char *setting = ts_setting_string(TS_SETTING_SOCKET_IFNAME);
    if (!*setting && getenv("GLOO_SOCKET_IFNAME")) setting = getenv("GLOO_SOCKET_IFNAME");
    snprintf(ifname, sizeof ifname, "%.*s", (int)strcspn(setting, ","), setting);
    if (*ifname) return ts_own_address(out, ifname, NULL);
    const char *master = getenv("MASTER_ADDR");
    if (master && *master && ts_own_address(out, "", master) == TS_OK) return TS_OK;
    if (ts_own_address(out, "", "192.0.2.1") == TS_OK) return TS_OK;
    snprintf(out, 128, "127.0.0.1");
    return TS_OK;
}
