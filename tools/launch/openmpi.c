/* SPDX-License-Identifier: Apache-2.0 */
/* Open MPI under tessera run: a PMIx server, which is a plug-in, and what else its ranks need. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/backends.h"
#include "launch_impl.h"
#include "pmix.h"

int launch_openmpi_load(launch *job)
{
    void *handle;
    if (!job->opt->mpi || strcmp(job->opt->mpi, "openmpi") != 0) return 0;
    if (ts_plugin_open(&handle, "libtessera_pmix.so") != TS_OK) {
        launch_say(job, "--mpi openmpi needs a PMIx server: %s", ts_error_last());
        return TS_LAUNCH_FAILED;
    }
    const launch_pmix_api *api = dlsym(handle, LAUNCH_PMIX_SYMBOL);
    if (!api || api->version != LAUNCH_PMIX_VERSION) {
        launch_say(job, "libtessera_pmix.so is of another version");
        return TS_LAUNCH_FAILED;
    }
    job->pmix = api;
    snprintf(job->segments, sizeof job->segments, "/dev/shm/tessera-mpi-%d-XXXXXX", (int)getpid());
    if (!mkdtemp(job->segments)) job->segments[0] = '\0';
    return 0;
}

int launch_openmpi_begin(launch *job)
{
    char name[96];
    if (!job->pmix) return 0;
    snprintf(name, sizeof name, "%s.%d", job->run_id, job->attempt);
    const char *problem = job->pmix->start(name, job->opt->ranks);
    if (!problem) return 0;
    launch_say(job, "cannot serve PMIx: %s", problem);
    return TS_LAUNCH_FAILED;
}

char **launch_openmpi_environment(const launch_rank *rank)
{
    return rank->job->pmix ? rank->job->pmix->environment(rank->local) : NULL;
}

static void empty_segments(const launch *job)
{
    char path[sizeof job->segments + 256];
    DIR *folder = *job->segments ? opendir(job->segments) : NULL;
    for (struct dirent *e; folder && (e = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%.255s", job->segments, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    if (folder) closedir(folder);
}

void launch_openmpi_end(launch *job)
{
    if (!job->pmix) return;
    job->pmix->end();
    empty_segments(job);
}

void launch_openmpi_unload(launch *job)
{
    if (job->pmix) job->pmix->stop();
}

void launch_openmpi_clear(const launch *job)
{
    empty_segments(job);
    if (*job->segments) rmdir(job->segments);
}
