/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/bootstrap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/settings.h"
#include "net/socket.h"

static uint64_t random_number(void)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = (uint64_t)ts_now_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid();
    return number;
}

/* PyTorch's choice of transport between hosts. */
static ts_status check_transport(void)
{
    const char *transport = getenv("GLOO_DEVICE_TRANSPORT");
    if (!transport || !*transport || strcmp(transport, "TCP") == 0) return TS_OK;
    return ts_fail(TS_EUNSUPPORTED, "GLOO_DEVICE_TRANSPORT is '%s'; only TCP is offered",
                   transport);
}

static ts_status describe_self(ts_bootstrap *boot)
{
    ts_record *own = &boot->own;
    own->rank = boot->opt->rank;
    own->size = boot->opt->size;
    own->pid = (int)getpid();
    own->incarnation = random_number();
    snprintf(own->run, sizeof own->run, "%.*s", (int)strcspn(boot->run, "\n"), boot->run);
    ts_host_identity(own->host_id, sizeof own->host_id, boot->opt);
    if (gethostname(own->host, sizeof own->host) != 0 || !*own->host)
        snprintf(own->host, sizeof own->host, "?");
    own->host[sizeof own->host - 1] = '\0';
    TS_TRY(check_transport());
    if (own->size == 1) return TS_OK;
    snprintf(own->local, sizeof own->local, "tessera-%016" PRIx64, random_number());
    TS_TRY(ts_unix_listen(&boot->local_listener, own->local));
    TS_TRY(ts_host_address(own->address));
    TS_TRY(ts_tcp_listen(&boot->tcp_listener, own->address, 0));
    own->port = ts_socket_port(boot->tcp_listener);
    return TS_OK;
}

static void describe_links(ts_bootstrap *boot)
{
    for (int peer = 0; peer < boot->own.size; peer++) {
        const ts_record *r = &boot->record[peer];
        ts_link *link = boot->engine->link[peer];
        link->same_host = strcmp(r->host_id, boot->own.host_id) == 0;
        link->pid = r->pid;
        memcpy(link->host, r->host, sizeof link->host);
    }
}

static ts_status run(ts_bootstrap *boot)
{
    TS_TRY(describe_self(boot));
    TS_TRY(ts_join(boot));
    describe_links(boot);
    TS_TRY(ts_mesh_connect(boot));
    return ts_mail_meet(boot);
}

ts_status ts_bootstrap_links(ts_engine *engine, const ts_engine_options *opt)
{
    ts_bootstrap boot = {.engine = engine,
                         .opt = opt,
                         .deadline = ts_deadline_in(opt->timeout_ms),
                         .run = ts_setting_string(TS_SETTING_RUN_ID),
                         .local_listener = -1,
                         .tcp_listener = -1,
                         .most_ranks = opt->size};
    boot.share_heap = opt->heap_fd >= 0 && ts_setting_bool(TS_SETTING_SHARED_MEMORY);
    boot.record = ts_calloc((size_t)opt->size, sizeof *boot.record);
    if (!boot.record) return ts_fail_memory((size_t)opt->size * sizeof *boot.record, "records");
    ts_status status = run(&boot);
    if (status != TS_OK && status != TS_EREMOTE && status != TS_ESTORE)
        status = ts_join_fail(&boot, status);
    ts_socket_close(boot.local_listener);
    ts_socket_close(boot.tcp_listener);
    free(boot.record);
    return status;
}
