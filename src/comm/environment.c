/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/settings.h"
#include "net/interface.h"

typedef struct launcher {
    const char *name;
    const char *rank[2], *size[3], *local_rank[2], *local_size[2]; /* variables; end with NULL */
} launcher;

static const launcher ours = {NULL, {"RANK"}, {"WORLD_SIZE"}, {"LOCAL_RANK"}, {"LOCAL_WORLD_SIZE"}};
static const launcher open_mpi = {"mpirun of Open MPI",
                                  {"OMPI_COMM_WORLD_RANK"},
                                  {"OMPI_COMM_WORLD_SIZE"},
                                  {"OMPI_COMM_WORLD_LOCAL_RANK"},
                                  {"OMPI_COMM_WORLD_LOCAL_SIZE"}};
static const launcher slurm = {
    "srun", {"SLURM_PROCID"}, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, {"SLURM_LOCALID"}, {NULL}};
static const launcher pmi = {
    "mpirun with PMI", {"PMI_RANK"}, {"PMI_SIZE"}, {"MPI_LOCALRANKID"}, {"MPI_LOCALNRANKS"}};

static const char *text_of(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* Leaves *out alone if none is set. */
static ts_status read_number(int *out, const char *const *names)
{
    enum { MOST = 1 << 24 };
    const char *which = NULL, *text = ts_env_first(&which, names, NULL);
    int64_t value;
    if (!text) return TS_OK;
    if (ts_parse_int(&value, text) != TS_OK || value < 0 || value > MOST)
        return ts_fail(TS_EINVAL, "%s is '%s', not a number in 0 .. %d", which, text, MOST);
    *out = (int)value;
    return TS_OK;
}

/* What is known already stays. */
static ts_status complete(ts_env_place *p, const launcher *l)
{
    int *values[] = {&p->rank, &p->size, &p->local_rank, &p->local_size};
    const char *const *names[] = {l->rank, l->size, l->local_rank, l->local_size};
    for (int i = 0; i < 4; i++)
        if (*values[i] < 0) TS_TRY(read_number(values[i], names[i]));
    return TS_OK;
}

static bool has_started_us(const launcher *l)
{
    return text_of(l->rank[0]) && (text_of(l->size[0]) || (l->size[1] && text_of(l->size[1])));
}

bool ts_env_is_batch_script(void)
{
    const char *tasks = text_of("SLURM_NTASKS");
    return text_of("SLURM_PROCID") && !text_of("SLURM_STEP_ID") && tasks && strcmp(tasks, "1") != 0;
}

/* srun may set PMI's variables too, and the mpirun of an MPI with PMI may start its helpers with
 * srun, which leaves Slurm's variables to ranks that are none of Slurm's. */
static bool is_srun(void)
{
    if (!has_started_us(&slurm) || ts_env_is_batch_script()) return false;
    if (!has_started_us(&pmi)) return true;
    const char *tasks = text_of("SLURM_STEP_NUM_TASKS");
    if (!tasks) tasks = text_of("SLURM_NTASKS");
    return tasks && strcmp(tasks, text_of("PMI_SIZE")) == 0 &&
           strcmp(text_of("SLURM_PROCID"), text_of("PMI_RANK")) == 0;
}

static const launcher *find_launcher(void)
{
    if (has_started_us(&open_mpi)) return &open_mpi;
    if (is_srun()) return &slurm;
    return has_started_us(&pmi) ? &pmi : NULL;
}

static const char *slurm_hosts(void)
{
    const char *list = text_of("SLURM_STEP_NODELIST");
    if (!list) list = text_of("SLURM_NODELIST");
    return list ? list : text_of("SLURM_JOB_NODELIST");
}

ts_status ts_env_place_read(ts_env_place *out)
{
    ts_env_place p = {NULL, -1, -1, -1, -1, false};
    char host[256];
    TS_TRY(complete(&p, &ours));
    const launcher *l = p.rank < 0 || p.size < 0 ? find_launcher() : NULL;
    if (l) {
        TS_TRY(complete(&p, l));
        p.launcher = l->name;
    }
    p.one_host = p.size == 1 || (p.size > 0 && p.local_size == p.size);
    if (l == &slurm && slurm_hosts())
        p.one_host = !ts_host_list_get(host, sizeof host, slurm_hosts(), 1);
    *out = p;
    return TS_OK;
}

void ts_env_first_host(char *out, size_t size, const ts_env_place *place)
{
    *out = '\0';
    if (place->launcher && slurm_hosts()) ts_host_list_get(out, size, slurm_hosts(), 0);
}

void ts_env_master(char *out, size_t size)
{
    ts_env_place place;
    const char *given = text_of("MASTER_ADDR");
    snprintf(out, size, "%s", given ? given : "");
    if (given || ts_env_place_read(&place) != TS_OK) return;
    if (place.one_host)
        snprintf(out, size, "%s", ts_loopback());
    else
        ts_env_first_host(out, size, &place);
}

/* ---- name of the run ------------------------------------------------------------------------- */

static bool has_variable(const char *environment, size_t size, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = environment; at < environment + size; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=') return true;
    return false;
}

static pid_t parent_of(pid_t pid)
{
    char path[40];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1) parent = 0;
    fclose(file);
    return parent;
}

/* The process that started the ranks of this host: the first ancestor without a rank's variable, as
 * between it and a rank there may be shells.  0: not found. */
static pid_t starter(const char *variable)
{
    char path[40], *environment = malloc(1 << 17);
    pid_t pid = environment ? getppid() : 0;
    while (pid > 1) {
        snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
        FILE *file = fopen(path, "re");
        if (!file) break;
        size_t size = fread(environment, 1, (1 << 17) - 1, file);
        fclose(file);
        environment[size] = '\0';
        if (!has_variable(environment, size, variable)) break;
        pid = parent_of(pid);
    }
    free(environment);
    return pid > 1 ? pid : 0;
}

static void slurm_run(char out[TS_RUN_ID_MAX])
{
    const char *job = text_of("SLURM_JOB_ID"), *step = text_of("SLURM_STEP_ID");
    const char *restart = text_of("SLURM_RESTART_COUNT");
    if (job)
        snprintf(out, TS_RUN_ID_MAX, "slurm-%.20s.%.20s.%.8s", job, step ? step : "0",
                 restart ? restart : "0");
}

static void pmi_run(char out[TS_RUN_ID_MAX])
{
    pid_t pid = starter(pmi.rank[0]);
    if (pid) snprintf(out, TS_RUN_ID_MAX, "mpirun-%d", (int)pid);
}

void ts_env_run_id(char out[TS_RUN_ID_MAX])
{
    ts_env_place place;
    const char *text = ts_setting_string(TS_SETTING_RUN_ID), *name = text_of("PMIX_NAMESPACE");
    if (!*text && text_of("TORCHELASTIC_RUN_ID")) text = text_of("TORCHELASTIC_RUN_ID");
    snprintf(out, TS_RUN_ID_MAX, "%s",
             strcmp(text, "none") == 0 ? "" : text); /* torchrun's default */
    out[strcspn(out, "\n")] = '\0';
    if (*out || ts_env_place_read(&place) != TS_OK || !place.launcher) return;
    if (place.launcher == slurm.name)
        slurm_run(out);
    else if (place.launcher == open_mpi.name && name)
        snprintf(out, TS_RUN_ID_MAX, "mpirun-%.40s", name);
    else if (place.launcher == pmi.name && place.one_host)
        pmi_run(out);
}
