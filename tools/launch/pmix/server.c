/* SPDX-License-Identifier: Apache-2.0 */
/* A PMIx server for one host: the library keeps what ranks say and hands it out; with all ranks here
 * there is nobody to ask, so the server only confirms. */
#include <pmix.h>
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/pmix.h"

static pmix_nspace_t job;
static char host[256];
static bool started;

/* ---- what the library asks ------------------------------------------------------------------- */

static pmix_status_t confirm(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done,
                             void *user)
{
    (void)proc, (void)object, (void)done, (void)user;
    return PMIX_OPERATION_SUCCEEDED;
}

/* The rank ends by itself, and the launcher sees it. */
static pmix_status_t on_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
                              pmix_proc_t procs[], size_t count, pmix_op_cbfunc_t done, void *user)
{
    (void)proc, (void)object, (void)status, (void)text, (void)procs, (void)count, (void)done;
    (void)user;
    return PMIX_OPERATION_SUCCEEDED;
}

/* All ranks have come; data is what they have put together. */
static pmix_status_t on_fence(const pmix_proc_t procs[], size_t num_procs, const pmix_info_t info[],
                              size_t num_info, char *data, size_t size, pmix_modex_cbfunc_t done,
                              void *user)
{
    (void)procs, (void)num_procs, (void)info, (void)num_info;
    if (done) done(PMIX_SUCCESS, data, size, user, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_server_module_t module = {
    .client_connected = confirm,
    .client_finalized = confirm,
    .abort = on_abort,
    .fence_nb = on_fence,
};

/* ---- what ranks may ask ---------------------------------------------------------------------- */

enum { NUM_RANK_FACTS = 6, NUM_JOB_FACTS = 9, MOST_RANKS = 65535 };

static void describe_rank(pmix_info_t *out, int rank)
{
    pmix_data_array_t *facts;
    pmix_rank_t number = (pmix_rank_t)rank;
    uint16_t local = (uint16_t)rank;
    uint32_t zero = 0;
    PMIX_DATA_ARRAY_CREATE(facts, NUM_RANK_FACTS, PMIX_INFO);
    pmix_info_t *fact = facts->array;
    PMIX_INFO_LOAD(&fact[0], PMIX_RANK, &number, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&fact[1], PMIX_GLOBAL_RANK, &number, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&fact[2], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    PMIX_INFO_LOAD(&fact[3], PMIX_NODE_RANK, &local, PMIX_UINT16);
    PMIX_INFO_LOAD(&fact[4], PMIX_NODEID, &zero, PMIX_UINT32);
    PMIX_INFO_LOAD(&fact[5], PMIX_APPNUM, &zero, PMIX_UINT32);
    PMIX_INFO_LOAD(out, PMIX_PROC_DATA, facts, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_FREE(facts); /* the entry has a copy */
}

/* "0,1,2" */
static char *list_ranks(int ranks)
{
    char *text = calloc((size_t)ranks, 8), *at = text;
    for (int i = 0; text && i < ranks; i++) at += sprintf(at, i ? ",%d" : "%d", i);
    return text;
}

static pmix_status_t register_job(int ranks)
{
    size_t count = NUM_JOB_FACTS + (size_t)ranks;
    uint32_t size = (uint32_t)ranks;
    char *peers = list_ranks(ranks), *nodes = NULL, *places = NULL;
    pmix_info_t *info;
    if (!peers) return PMIX_ERR_NOMEM;
    PMIx_generate_regex(host, &nodes);
    PMIx_generate_ppn(peers, &places);
    PMIX_INFO_CREATE(info, count);
    PMIX_INFO_LOAD(&info[0], PMIX_UNIV_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[1], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[2], PMIX_MAX_PROCS, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[3], PMIX_LOCAL_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[4], PMIX_NODE_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[5], PMIX_LOCAL_PEERS, peers, PMIX_STRING);
    PMIX_INFO_LOAD(&info[6], PMIX_NODE_MAP, nodes, PMIX_STRING);
    PMIX_INFO_LOAD(&info[7], PMIX_PROC_MAP, places, PMIX_STRING);
    PMIX_INFO_LOAD(&info[8], PMIX_JOBID, job, PMIX_STRING);
    for (int i = 0; i < ranks; i++) describe_rank(&info[NUM_JOB_FACTS + i], i);
    pmix_status_t status = PMIx_server_register_nspace(job, ranks, info, count, NULL, NULL);
    PMIX_INFO_FREE(info, count);
    free(peers);
    free(nodes);
    free(places);
    return status;
}

/* ---- the job --------------------------------------------------------------------------------- */

static bool good(pmix_status_t status)
{
    return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED;
}

static const char *start(const char *name, int ranks)
{
    pmix_status_t status = PMIX_SUCCESS;
    if (ranks > MOST_RANKS) return "too many ranks";
    gethostname(host, sizeof host - 1);
    if (!started) status = PMIx_server_init(&module, NULL, 0);
    if (!good(status)) return PMIx_Error_string(status);
    started = true;
    PMIX_LOAD_NSPACE(job, name);
    status = register_job(ranks);
    for (int i = 0; i < ranks && good(status); i++) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, job, (pmix_rank_t)i);
        status = PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL);
    }
    return good(status) ? NULL : PMIx_Error_string(status);
}

static char **environment(int rank)
{
    static char **variables;
    pmix_proc_t proc;
    for (char **v = variables; v && *v; v++) free(*v);
    free(variables);
    variables = NULL;
    PMIX_LOAD_PROCID(&proc, job, (pmix_rank_t)rank);
    return good(PMIx_server_setup_fork(&proc, &variables)) ? variables : NULL;
}

static void end(void) { PMIx_server_deregister_nspace(job, NULL, NULL); }

static void stop(void)
{
    if (started) PMIx_server_finalize();
    started = false;
}

extern __attribute__((visibility("default"))) const launch_pmix_api ts_launch_pmix;
const launch_pmix_api ts_launch_pmix = {.version = LAUNCH_PMIX_VERSION,
                                        .start = start,
                                        .environment = environment,
                                        .end = end,
                                        .stop = stop};
