/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/bootstrap.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"
#include "comm/environment.h"
#include "comm/publish.h"
#include "comm/timing.h"
#include "net/socket.h"
#include "net/tls.h"

#define LAZY_FROM_RANKS 64

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

/* Links between hosts are made when they are first used?  A large group saves most of them; in a
 * small one it is better to learn at the start who cannot be reached. */
static ts_status choose_lazy(ts_record *own)
{
    static const char *const names[] = {"TESSERA_LAZY_CONNECT", "TS_GLOO_LAZY_INIT",
                                        "TORCH_GLOO_LAZY_INIT", NULL};
    bool lazy = false, found;
    TS_TRY(ts_env_bool(&lazy, &found, names, NULL));
    own->lazy = found ? lazy : own->size >= LAZY_FROM_RANKS;
    return TS_OK;
}

static ts_status choose_sockets(ts_record *own)
{
    TS_TRY(ts_settings_check());
    int64_t sockets = ts_setting_int(TS_SETTING_SOCKETS_PER_PEER);
    own->sockets = sockets > 0 ? (int)sockets : own->endpoints;
    return TS_OK;
}

static ts_status listen_everywhere(ts_bootstrap *boot)
{
    ts_record *own = &boot->own;
    TS_TRY(ts_host_interfaces(boot->via, &own->endpoints));
    for (int i = 0; i < own->endpoints; i++) {
        TS_TRY(
            ts_publish_listen(&boot->tcp_listener[i], &own->endpoint[i], boot->via[i].address, i));
    }
    return TS_OK;
}

static ts_status describe_self(ts_bootstrap *boot)
{
    ts_record *own = &boot->own;
    own->rank = boot->opt->rank;
    own->size = boot->opt->size;
    TS_TRY(ts_key_load(&boot->key, "link"));
    TS_TRY(ts_tls_key(&boot->tls));
    own->secret = boot->key.given + boot->tls.given;
    own->pid = (int)getpid();
    own->incarnation = random_number();
    snprintf(own->run, sizeof own->run, "%s", boot->run);
    ts_host_identity(own->host_id, sizeof own->host_id, boot->opt);
    if (gethostname(own->host, sizeof own->host) != 0 || !*own->host)
        snprintf(own->host, sizeof own->host, "?");
    own->host[sizeof own->host - 1] = '\0';
    TS_TRY(check_transport());
    if (own->size == 1) return TS_OK;
    snprintf(own->local, sizeof own->local, "tessera-%016" PRIx64, random_number());
    TS_TRY(ts_unix_listen(&boot->local_listener, own->local));
    TS_TRY(listen_everywhere(boot));
    TS_TRY(choose_sockets(own));
    return choose_lazy(own);
}

/* An address that others cannot reach is no error yet: a tunnel may lead to it. */
static void warn_loopback(const ts_bootstrap *boot)
{
    static atomic_bool warned;
    bool chosen = boot->via[0].name[0], alone = true;
    for (int peer = 0; peer < boot->own.size; peer++)
        alone = alone && strcmp(boot->record[peer].host, boot->own.host) == 0;
    if (alone || chosen || !boot->via[0].loopback || atomic_exchange(&warned, true)) return;
    TS_LOG(TS_LOG_NET, TS_LEVEL_WARNING,
           "host name '%s' stands for no address of this host that others can reach; %s is used: "
           "set TESSERA_SOCKET_IFNAME",
           boot->own.host, boot->via[0].address);
}

static ts_status describe_links(ts_bootstrap *boot)
{
    for (int peer = 0; peer < boot->own.size; peer++) {
        const ts_record *r = &boot->record[peer];
        ts_link *link = boot->engine->link[peer];
        link->same_host = strcmp(r->host_id, boot->own.host_id) == 0;
        link->pid = r->pid;
        memcpy(link->host, r->host, sizeof link->host);
        if (!link->same_host) TS_TRY(ts_link_branch_out(link, boot->own.sockets));
    }
    warn_loopback(boot);
    return TS_OK;
}

static ts_status run(ts_bootstrap *boot)
{
    TS_TRY(describe_self(boot));
    TS_TRY(ts_join(boot));
    ts_timing_mark(TS_MARK_RECORDS);
    TS_TRY(describe_links(boot));
    TS_TRY(ts_mesh_connect(boot));
    TS_TRY(ts_mail_meet(boot));
    return boot->own.lazy ? ts_dialer_start(boot->engine, boot) : TS_OK;
}

ts_status ts_bootstrap_links(ts_engine *engine, const ts_engine_options *opt)
{
    char run_id[TS_RUN_ID_MAX];
    ts_env_run_id(run_id);
    ts_bootstrap boot = {.engine = engine,
                         .opt = opt,
                         .deadline = ts_deadline_in(opt->timeout_ms),
                         .run = run_id,
                         .local_listener = -1,
                         .most_ranks = opt->size};
    for (int i = 0; i < TS_INTERFACES_MAX; i++) boot.tcp_listener[i] = -1;
    boot.share_heap = opt->heap_fd >= 0 && ts_setting_bool(TS_SETTING_SHARED_MEMORY);
    boot.record = ts_calloc((size_t)opt->size, sizeof *boot.record);
    if (!boot.record) return ts_fail_memory((size_t)opt->size * sizeof *boot.record, "records");
    ts_status status = run(&boot);
    if (status != TS_OK && status != TS_EREMOTE && status != TS_ESTORE)
        status = ts_join_fail(&boot, status);
    ts_socket_close(boot.local_listener);
    for (int i = 0; i < TS_INTERFACES_MAX; i++) ts_socket_close(boot.tcp_listener[i]);
    free(boot.record);
    return status;
}
