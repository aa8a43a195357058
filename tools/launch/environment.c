/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank is given: environment, arguments, cores. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/timing.h"
#include "launch_impl.h"
#include "net/interface.h"

#define MAX_ADDED 64

typedef struct additions {
    char *text[MAX_ADDED]; /* "NAME=value" */
    int count;
    bool failed;
} additions;

static void add(additions *a, const char *name, const char *value)
{
    char *text = ts_asprintf("%s=%s", name, value);
    if (!text || a->count == MAX_ADDED)
        a->failed = true;
    else
        a->text[a->count++] = text;
}

static void add_int(additions *a, const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    add(a, name, text);
}

bool launch_cores_of(cpu_set_t *out, const launch *job, int local)
{
    int n = job->opt->ranks, seen = 0;
    if (job->opt->no_pin || n < 2 || job->num_cores < n) return false;
    int begin = local * job->num_cores / n, end = (local + 1) * job->num_cores / n;
    CPU_ZERO(out);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &job->cores)) continue;
        if (seen >= begin && seen < end) CPU_SET(core, out);
        seen++;
    }
    return true;
}

int launch_threads_of(const launch *job, int local)
{
    int n = job->opt->ranks;
    if (job->num_cores < n) return 1;
    return (local + 1) * job->num_cores / n - local * job->num_cores / n;
}

static void add_threads(additions *a, const launch_rank *rank)
{
    cpu_set_t own;
    if (launch_cores_of(&own, rank->job, rank->local))
        add_int(a, "TESSERA_HOST_CORES", rank->job->num_cores);
    if (rank->job->opt->ranks < 2 || getenv("OMP_NUM_THREADS")) return;
    add_int(a, "OMP_NUM_THREADS", 1);
    if (!getenv("TESSERA_NUM_THREADS"))
        add_int(a, "TESSERA_NUM_THREADS", launch_threads_of(rank->job, rank->local));
}

/* Open MPI 4 asks its PMIx server only if it believes that a daemon of its own has started it. */
static void add_openmpi(additions *a, const launch_rank *rank)
{
    char **texts = launch_openmpi_environment(rank);
    if (!texts) {
        a->failed = true;
        return;
    }
    for (; *texts; texts++) {
        char *equals = strchr(*texts, '=');
        if (!equals) continue;
        *equals = '\0';
        add(a, *texts, equals + 1);
        *equals = '=';
    }
    add(a, "OMPI_MCA_orte_local_daemon_uri", "0.0;tcp://127.0.0.1:1");
    if (*rank->job->segments) add(a, "OMPI_MCA_btl_vader_backing_directory", rank->job->segments);
}

static void add_mpi(additions *a, const launch_rank *rank)
{
    if (rank->job->pmix) add_openmpi(a, rank);
    int ranks = rank->job->opt->ranks;
    if (rank->job->opt->mpi) add(a, "TESSERA_MPI", rank->job->opt->mpi);
    if (rank->pmi.child_fd < 0) return;
    add_int(a, "PMI_FD", rank->pmi.child_fd);
    add_int(a, "PMI_RANK", rank->local);
    add_int(a, "PMI_SIZE", ranks);
    add_int(a, "MPI_LOCALRANKID", rank->local);
    add_int(a, "MPI_LOCALNRANKS", ranks);
}

/* The child puts in when it execs. */
static void add_start(additions *a)
{
    char text[64];
    snprintf(text, sizeof text, "%lld %020d", (long long)ts_timing_loaded(), 0);
    add(a, TS_TIMING_START, text);
}

static void add_all(additions *a, const launch_rank *rank)
{
    const launch *job = rank->job;
    const ts_launch_options *opt = job->opt;
    int nodes = opt->nodes > 1 ? opt->nodes : 1, number = launch_rank_number(rank);
    add_int(a, "RANK", number);
    add_int(a, "LOCAL_RANK", rank->local);
    add_int(a, "GROUP_RANK", opt->node_rank);
    add_int(a, "ROLE_RANK", number);
    add_int(a, "WORLD_SIZE", opt->ranks * nodes);
    add_int(a, "LOCAL_WORLD_SIZE", opt->ranks);
    add_int(a, "GROUP_WORLD_SIZE", nodes);
    add_int(a, "ROLE_WORLD_SIZE", opt->ranks * nodes);
    add(a, "ROLE_NAME", opt->role ? opt->role : "default");
    add(a, "MASTER_ADDR", opt->master_addr ? opt->master_addr : ts_loopback());
    add_int(a, "MASTER_PORT", job->port);
    add_int(a, "TORCHELASTIC_RESTART_COUNT", job->attempt);
    add_int(a, "TORCHELASTIC_MAX_RESTARTS", opt->max_restarts);
    add(a, "TORCHELASTIC_RUN_ID", job->run_id);
    add(a, "TORCHELASTIC_USE_AGENT_STORE", nodes > 1 ? "False" : "True");
    add(a, "TESSERA_RUN_ID", job->run_id);
    if (!getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING")) add(a, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    if (*rank->error_file) add(a, "TORCHELASTIC_ERROR_FILE", rank->error_file);
    if (opt->timing) add(a, "TESSERA_TIMING", "1");
    add_start(a);
    add_threads(a, rank);
    add_mpi(a, rank);
}

static bool replaced(const additions *a, const char *variable)
{
    size_t name = strcspn(variable, "=") + 1;
    for (int i = 0; i < a->count; i++)
        if (strncmp(a->text[i], variable, name) == 0) return true;
    return false;
}

char **launch_environment(const launch_rank *rank)
{
    additions a = {.count = 0};
    size_t inherited = 0, n = 0;
    add_all(&a, rank);
    while (environ[inherited]) inherited++;
    char **env = ts_calloc(inherited + MAX_ADDED + 1, sizeof *env);
    for (size_t i = 0; env && i < inherited; i++)
        if (!replaced(&a, environ[i]) && !(env[n++] = ts_strdup(environ[i]))) a.failed = true;
    for (int i = 0; i < a.count; i++) {
        if (env)
            env[n++] = a.text[i];
        else
            free(a.text[i]);
    }
    if (!a.failed) return env;
    launch_environment_free(env);
    return NULL;
}

void launch_environment_free(char **env)
{
    for (size_t i = 0; env && env[i]; i++) free(env[i]);
    free(env);
}

/* A copy of text in which every ${local_rank} is the number. */
static char *substitute(const char *text, int local)
{
    static const char mark[] = "${local_rank}";
    char *result = ts_strdup("");
    for (const char *hit; result && (hit = strstr(text, mark)); text = hit + strlen(mark)) {
        char *longer = ts_asprintf("%s%.*s%d", result, (int)(hit - text), text, local);
        free(result);
        result = longer;
    }
    char *whole = result ? ts_asprintf("%s%s", result, text) : NULL;
    free(result);
    return whole;
}

char **launch_arguments(const launch_rank *rank)
{
    char **from = rank->job->opt->argv;
    size_t count = 0;
    while (from[count]) count++;
    char **args = ts_calloc(count + 1, sizeof *args);
    for (size_t i = 0; args && i < count; i++)
        if (!(args[i] = substitute(from[i], rank->local))) {
            launch_environment_free(args);
            return NULL;
        }
    return args;
}
