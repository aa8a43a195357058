/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: lists that people and launchers write: hosts of Slurm, interfaces. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/environment.h"
#include "net/interface.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hosts(const char *list)
{
    char name[64];
    for (int i = 0; i < 50; i++) {
        memset(name, 'x', sizeof name);
        if (!ts_host_list_get(name, i % 2 ? sizeof name : 5, list, i * i)) continue;
        if (!memchr(name, '\0', sizeof name)) abort();
    }
}

static void interfaces(const char *list)
{
    static const ts_interface there[] = {{.name = "lo", .address = "127.0.0.1"},
                                         {.name = "eth0", .address = "10.0.0.1"},
                                         {.name = "eth01", .address = "fe80::1"},
                                         {.name = "ib0", .address = "10.1.0.1"}};
    ts_interface out[TS_INTERFACES_MAX];
    for (int exact = 0; exact < 2; exact++) {
        int n = 0;
        ts_status status = ts_interfaces_select(out, &n, "LIST", list, exact, there, 4);
        if (status == TS_OK && (n < 1 || n > TS_INTERFACES_MAX)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    hosts(text);
    if (size > 0) interfaces(text);
    free(text);
    return 0;
}
