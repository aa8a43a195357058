/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/context.h"
#include "base/memory.h"
#include "base/settings.h"
#include "comm/bootstrap.h"
#include "comm/environment.h"
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
    if (opt->host_id) return opt->host_id;
    const char *of_thread = ts_thread()->host_id;
    return of_thread ? of_thread : ts_setting_string(TS_SETTING_HOST_ID);
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

/* ---- addresses ------------------------------------------------------------------------------- */

static ts_status wanted_family(int *out)
{
    const char *family = ts_setting_string(TS_SETTING_SOCKET_FAMILY);
    *out = strcasecmp(family, "ipv4") == 0   ? AF_INET
           : strcasecmp(family, "ipv6") == 0 ? AF_INET6
                                             : 0;
    if (*out || !*family) return TS_OK;
    return ts_fail(TS_EINVAL, "TESSERA_SOCKET_FAMILY is '%s'; it can be ipv4 or ipv6", family);
}

static ts_status named_interfaces(ts_interface out[TS_INTERFACES_MAX], int *n, const char *variable,
                                  const char *list, int family)
{
    ts_interface *there = ts_calloc(TS_INTERFACES_SEEN, sizeof *there);
    bool gloo = strcmp(variable, "GLOO_SOCKET_IFNAME") == 0; /* whole names, as gloo has it */
    int count;
    if (!there) return ts_fail_memory(TS_INTERFACES_SEEN * sizeof *there, "interfaces");
    ts_status status = ts_interfaces_list(there, &count, family);
    if (status == TS_OK) status = ts_interfaces_select(out, n, variable, list, gloo, there, count);
    free(there);
    return status;
}

static bool fits(const char *address, int family)
{
    return !family || (strchr(address, ':') != NULL) == (family == AF_INET6);
}

/* The address of the host's name; else the one that looks toward the master.  A master on loopback
 * means that all ranks are on this host, and no name service is asked. */
static bool usual_address(char out[TS_ADDRESS_TEXT], int family)
{
    char master[256];
    ts_env_master(master, sizeof master);
    bool known = *master && ts_own_address(out, master) == TS_OK;
    if (known && ts_address_is_loopback(out)) return false;
    char looking[TS_ADDRESS_TEXT];
    snprintf(looking, sizeof looking, "%s", known ? out : "");
    if (ts_address_of_host_name(out, family)) return true;
    snprintf(out, TS_ADDRESS_TEXT, "%s", looking);
    return known && fits(out, family);
}

ts_status ts_host_interfaces(ts_interface out[TS_INTERFACES_MAX], int *n)
{
    static const char *const names[] = {"TESSERA_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", NULL};
    const char *variable = NULL, *list = ts_env_first(&variable, names, NULL);
    int family;
    TS_TRY(wanted_family(&family));
    if (list) return named_interfaces(out, n, variable, list, family);
    *n = 1;
    out[0] = (ts_interface){.name = ""};
    if (usual_address(out[0].address, family)) return TS_OK;
    out[0].loopback = true;
    snprintf(out[0].address, sizeof out[0].address, "%s",
             family == AF_INET6 ? "::1" : ts_loopback());
    return TS_OK;
}
