/* SPDX-License-Identifier: Apache-2.0 */
/* tessera run: starts the ranks of a job.  Options and meaning are torchrun's. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "commands.h"
#include "launch/launch.h"

typedef struct run_values {
    const char *nproc, *nnodes, *rdzv_backend, *rdzv_endpoint, *rdzv_id, *rdzv_conf;
    const char *master_addr, *log_dir, *redirects, *tee, *filter, *role, *mpi;
    int64_t node_rank, master_port, max_restarts;
    double grace, monitor;
    int nodes; /* from nnodes */
    bool standalone, no_pin, quiet, no_python, timing, secure;
} run_values;

#define STATIC_PORT 29500 /* torchrun's */

#define AT(field) offsetof(run_values, field)
static const ts_opt run_options[] = {
    {"nproc-per-node", 'n', TS_OPT_TEXT, AT(nproc), "N", "1",
     "Ranks on this host: a number, or cpu (one per core).", 0, 0, NULL},
    {"nnodes", 0, TS_OPT_TEXT, AT(nnodes), "N", "1",
     "Number of hosts; tessera run is started on each, with its own --node-rank.", 0, 0, NULL},
    {"node-rank", 0, TS_OPT_INT, AT(node_rank), "R", "0", "Number of this host.", 0, 1e6, NULL},
    {"master-addr", 0, TS_OPT_TEXT, AT(master_addr), "ADDR", NULL,
     "Address of host 0, at which the store is served. [127.0.0.1 on one host]", 0, 0, NULL},
    {"master-port", 0, TS_OPT_INT, AT(master_port), "PORT", "0",
     "Port of the store; 0: a free one, so that jobs never collide; on several hosts 29500.", 0,
     65535, NULL},
    {"standalone", 0, TS_OPT_FLAG, AT(standalone), NULL, NULL,
     "One host with a free port, whatever the rendezvous options say.", 0, 0, NULL},
    {"rdzv-backend", 0, TS_OPT_TEXT, AT(rdzv_backend), "NAME", "static",
     "Rendezvous between hosts; static is supported.", 0, 0, "static|c10d|etcd-v2|etcd"},
    {"rdzv-endpoint", 0, TS_OPT_TEXT, AT(rdzv_endpoint), "HOST:PORT", NULL,
     "Where the store is served; the same as --master-addr and --master-port.", 0, 0, NULL},
    {"rdzv-id", 0, TS_OPT_TEXT, AT(rdzv_id), "ID", NULL,
     "Name of the job, alike on all hosts. [made up; none on several hosts]", 0, 0, NULL},
    {"rdzv-conf", 0, TS_OPT_TEXT, AT(rdzv_conf), "K=V,...", NULL,
     "Names of torchrun are accepted; they are of no effect on one host.", 0, 0, NULL},
    {"max-restarts", 0, TS_OPT_INT, AT(max_restarts), "K", "0",
     "Start all ranks again after a failure, at most K times.", 0, 1e9, NULL},
    {"monitor-interval", 0, TS_OPT_REAL, AT(monitor), "SECONDS", "0.1",
     "Accepted; failures are seen at once.", 1e-9, 1e9, NULL},
    {"shutdown-timeout", 0, TS_OPT_REAL, AT(grace), "SECONDS", "30",
     "Time between SIGTERM and SIGKILL when ranks are ended.", 0, 1e6, NULL},
    {"role", 0, TS_OPT_TEXT, AT(role), "NAME", "default", "Name of the ranks' role.", 0, 0, NULL},
    {"log-dir", 0, TS_OPT_TEXT, AT(log_dir), "DIR", NULL,
     "Folder of log files. [a temporary one, if output is redirected]", 0, 0, NULL},
    {"redirects", 'r', TS_OPT_TEXT, AT(redirects), "STREAMS", NULL,
     "Streams that go to files: 1 stdout, 2 stderr, 3 both, or by local rank 0:1,1:3.", 0, 0, NULL},
    {"tee", 't', TS_OPT_TEXT, AT(tee), "STREAMS", NULL,
     "Streams that go to files and to the console; as --redirects.", 0, 0, NULL},
    {"local-ranks-filter", 0, TS_OPT_TEXT, AT(filter), "R,R,...", NULL,
     "Local ranks whose output is shown on the console. [all]", 0, 0, NULL},
    {"mpi", 0, TS_OPT_TEXT, AT(mpi), "WHICH", NULL,
     "Serve programs that use this MPI, for the backend mpi too.", 0, 0, "openmpi|mpich"},
    {"no-pin", 0, TS_OPT_FLAG, AT(no_pin), NULL, NULL, "Do not divide the cores among the ranks.",
     0, 0, NULL},
    {"timing", 0, TS_OPT_FLAG, AT(timing), NULL, NULL,
     "Rank 0 prints how long the phases of the start took, over all ranks (TESSERA_TIMING).", 0, 0,
     NULL},
    {"secure", 0, TS_OPT_FLAG, AT(secure), NULL, NULL,
     "Give the job a secret, unless it has one (TESSERA_SECRET), and encrypt its connections.", 0,
     0, NULL},
    {"no-python", 0, TS_OPT_FLAG, AT(no_python), NULL, NULL,
     "Accepted; programs are always executed directly.", 0, 0, NULL},
    {"quiet", 'q', TS_OPT_FLAG, AT(quiet), NULL, NULL, "No warnings; failures are still reported.",
     0, 0, NULL},
    {NULL, 0, TS_OPT_FLAG, 0, NULL, NULL, NULL, 0, 0, NULL}};

const ts_command ts_command_run;

/* MIN:MAX; false: malformed. */
static bool parse_nodes(const char *text, long *min, long *max)
{
    char *end;
    *min = *max = strtol(text, &end, 10);
    if (end == text) return false;
    if (*end == ':') {
        const char *second = end + 1;
        *max = strtol(second, &end, 10);
        if (end == second) return false;
    }
    return !*end && *min > 0 && *min <= *max;
}

/* The launchers do not talk to each other, so all must follow from the options. */
static int check_several(const run_values *v, long min, long max)
{
    const char *secret = getenv("TESSERA_SECRET"), *file = getenv("TESSERA_SECRET_FILE");
    if (min != max || strcmp(v->rdzv_backend, "static") != 0)
        return ts_usage_error(&ts_command_run,
                              "--nnodes %s --rdzv-backend %s: between hosts a fixed number and "
                              "static are supported; others are not supported yet by this version",
                              v->nnodes, v->rdzv_backend);
    if (v->node_rank >= max)
        return ts_usage_error(&ts_command_run, "--node-rank %lld is not in 0 .. %ld (--nnodes %s)",
                              (long long)v->node_rank, max - 1, v->nnodes);
    if (!v->master_addr && !(v->rdzv_endpoint && *v->rdzv_endpoint))
        return ts_usage_error(&ts_command_run,
                              "--nnodes %s needs --master-addr, the address of host 0", v->nnodes);
    if (v->max_restarts > 0 || v->mpi)
        return ts_usage_error(&ts_command_run,
                              "--nnodes %s: --max-restarts and --mpi work on one host only",
                              v->nnodes);
    if (v->secure && !(secret && *secret) && !(file && *file))
        return ts_usage_error(&ts_command_run,
                              "--nnodes %s --secure: set TESSERA_SECRET alike on all hosts",
                              v->nnodes);
    return TS_EXIT_OK;
}

static int check_nodes(run_values *v)
{
    long min, max;
    if (!parse_nodes(v->nnodes, &min, &max))
        return ts_usage_error(&ts_command_run,
                              "--nnodes is N or MIN:MAX with 0 < MIN <= MAX, not '%s'", v->nnodes);
    if (max > 4096)
        return ts_usage_error(&ts_command_run, "--nnodes %s: at most 4096 hosts", v->nnodes);
    v->nodes = v->standalone ? 1 : (int)max;
    if (v->nodes > 1) return check_several(v, min, max);
    if (v->node_rank > 0 && !v->standalone)
        return ts_usage_error(&ts_command_run, "--node-rank %lld, but the job has one host",
                              (long long)v->node_rank);
    return TS_EXIT_OK;
}

/* HOST[:PORT] into where the store is served. */
static bool parse_endpoint(const char *text, char host[256], int64_t *port)
{
    const char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
    bool has_port = colon && (bracket ? colon > bracket : strchr(text, ':') == colon);
    size_t length = has_port ? (size_t)(colon - text) : strlen(text);
    if (length == 0 || length >= 256) return false;
    snprintf(host, 256, "%.*s", (int)length, text);
    *port = 0;
    return !has_port || (ts_parse_int(port, colon + 1) == TS_OK && *port >= 0 && *port <= 65535);
}

/* Names that torchrun knows.  They say how long hosts wait for each other, so they change nothing
 * for a job of one. */
static bool is_known_setting(const char *item, size_t length)
{
    static const char *const names[] = {"timeout",
                                        "join_timeout",
                                        "last_call_timeout",
                                        "close_timeout",
                                        "read_timeout",
                                        "heartbeat_timeout",
                                        "keep_alive_interval",
                                        "keep_alive_max_attempt",
                                        "is_host",
                                        "use_libuv",
                                        "rank"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && strncmp(names[i], item, length) == 0) return true;
    return false;
}

static int check_rendezvous(run_values *v)
{
    static char host[256]; /* lives as long as the job */
    for (const char *item = v->rdzv_conf; item && *item;) {
        size_t length = strcspn(item, ","), name = strcspn(item, "=,");
        if (name == length || !is_known_setting(item, name))
            return ts_usage_error(&ts_command_run,
                                  "--rdzv-conf: '%.*s' is not NAME=VALUE with a name that torchrun "
                                  "knows",
                                  (int)length, item);
        item += length + (item[length] == ',');
    }
    if (v->standalone) return TS_EXIT_OK;
    if (strncmp(v->rdzv_backend, "etcd", 4) == 0)
        return ts_usage_error(&ts_command_run,
                              "--rdzv-backend %s is not offered yet by this version; static is",
                              v->rdzv_backend);
    if (!v->rdzv_endpoint || !*v->rdzv_endpoint || v->master_addr) return TS_EXIT_OK;
    int64_t port;
    if (!parse_endpoint(v->rdzv_endpoint, host, &port))
        return ts_usage_error(&ts_command_run, "--rdzv-endpoint is HOST or HOST:PORT, not '%s'",
                              v->rdzv_endpoint);
    v->master_addr = host;
    if (v->master_port == 0) v->master_port = port;
    return TS_EXIT_OK;
}

static int ranks_of(const char *text)
{
    char *end;
    if (strcmp(text, "cpu") == 0 || strcmp(text, "auto") == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        return cores > 0 ? (int)cores : 1;
    }
    long n = strtol(text, &end, 10);
    return end != text && !*end && n > 0 && n <= 4096 ? (int)n : 0;
}

static int run_run(void *values, int argc, char **argv)
{
    run_values *v = values;
    int status = check_nodes(v);
    if (status == TS_EXIT_OK) status = check_rendezvous(v);
    if (status != TS_EXIT_OK) return status;
    if (argc == 0) return ts_usage_error(&ts_command_run, "which program?");
    int ranks = ranks_of(v->nproc);
    if (v->nodes > 1 && v->master_port == 0) v->master_port = STATIC_PORT;
    if (ranks == 0)
        return ts_usage_error(&ts_command_run,
                              "--nproc-per-node is a number from 1 to 4096 or cpu, not '%s'",
                              v->nproc);
    ts_launch_options opt = {
        .title = "tessera run",
        .ranks = ranks,
        .nodes = v->nodes,
        .node_rank = v->standalone ? 0 : (int)v->node_rank,
        .max_restarts = (int)v->max_restarts,
        .run_id = v->rdzv_id,
        .role = v->role,
        .master_addr = v->standalone ? NULL : v->master_addr,
        .master_port = v->standalone ? 0 : (int)v->master_port,
        .no_pin = v->no_pin,
        .quiet = v->quiet,
        .timing = v->timing,
        .secure = v->secure,
        .grace_s = v->grace,
        .log_dir = v->log_dir,
        .redirects = v->redirects,
        .tee = v->tee,
        .filter = v->filter,
        .mpi = v->mpi,
        .argv = argv,
    };
    return ts_launch_run(&opt);
}

const ts_command ts_command_run = {
    .name = "run",
    .summary = "Start the ranks of a job: any program, once per rank.",
    .operands = "PROGRAM [ARGS...]",
    .about =
        "Every rank gets the variables of torchrun (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, "
        "MASTER_PORT, ...) and a share of the cores. ${local_rank} in an argument is replaced. "
        "Standard input goes to rank 0.\n"
        "The first rank that fails is reported first; the others are ended. The exit status is "
        "that rank's, or 128 + signal. No process of the job outlives the launcher, unless it made "
        "a session of its own (setsid).",
    .options = run_options,
    .values_size = sizeof(run_values),
    .env_prefix = "PET_",
    .run = run_run,
};
