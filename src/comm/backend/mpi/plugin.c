/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the backend, and the door of the plug-in. */
#include <stdio.h>

#include "engine.h"

/* MPI knows better than anybody else. */
static ts_status mpi_place(int *rank, int *size)
{
    TRY(process_start());
    pthread_mutex_lock(&mpi.lock);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, size);
    pthread_mutex_unlock(&mpi.lock);
    return TS_OK;
}

static ts_status mpi_init(void *self, const ts_backend_context *context)
{
    return group_open(&((handle *)self)->g, context);
}

static ts_status mpi_split(void *self, const ts_backend_context *context, void *parent,
                           const int *ranks, ts_split_record *own)
{
    own->word[0] = 1;
    return group_split(&((handle *)self)->g, context, group_of(parent), ranks);
}

static ts_status mpi_join(void *self, const ts_split_record *all)
{
    (void)all;
    return group_join(group_of(self));
}

static void mpi_fini(void *self)
{
    if (group_of(self)) group_close(group_of(self));
}

static void mpi_abort(void *self, ts_status status, const char *text)
{
    group *g = group_of(self);
    bell b = {.kind = RING_ABORT, .status = TS_EREMOTE};
    if (atomic_load(&g->broken)) return;
    group_break(g, status, text);
    snprintf(b.text, sizeof b.text, "%.480s", text);
    if (!process_enter()) return;
    bells_ring(g, &b);
    process_leave();
}

static bool mpi_is_broken(void *self) { return atomic_load(&group_of(self)->broken); }

static const ts_backend_ops mpi_ops = {
    .version = TS_BACKEND_VERSION,
    .name = "mpi",
    .capabilities = TS_CAN_SPLIT,
    .state_size = sizeof(handle),
    .place = mpi_place,
    .init = mpi_init,
    .split = mpi_split,
    .join = mpi_join,
    .fini = mpi_fini,
    .abort = mpi_abort,
    .is_broken = mpi_is_broken,
    .collective = {[TS_COLL_BARRIER] = mpi_barrier,
                   [TS_COLL_ALL_REDUCE] = mpi_all_reduce,
                   [TS_COLL_REDUCE] = mpi_reduce,
                   [TS_COLL_BROADCAST] = mpi_broadcast,
                   [TS_COLL_ALL_GATHER] = mpi_all_gather,
                   [TS_COLL_REDUCE_SCATTER] = mpi_reduce_scatter,
                   [TS_COLL_GATHER] = mpi_gather,
                   [TS_COLL_SCATTER] = mpi_scatter,
                   [TS_COLL_ALL_TO_ALL] = mpi_all_to_all},
    .start = mpi_start,
    .wait = mpi_message_wait,
    .release = mpi_release,
};

TS_API ts_backend_entry_fn ts_backend_entry;

const ts_backend_ops *ts_backend_entry(const ts_host_api *host)
{
    if (host->version != TS_HOST_API_VERSION || host->backend_version != TS_BACKEND_VERSION)
        return NULL;
    mpi.host = host;
    return &mpi_ops;
}
