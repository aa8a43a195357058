/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers tell the processes that they start. */
#ifndef TS_COMM_ENVIRONMENT_H
#define TS_COMM_ENVIRONMENT_H

#include <stddef.h>
#include <tessera/status.h>

typedef struct ts_env_place {
    const char *launcher;       /* such as "srun"; NULL: tessera run, torchrun, or by hand */
    int rank, size;             /* -1: not said */
    int local_rank, local_size; /* likewise */
    bool one_host;              /* all ranks are on this host, as far as the launcher knows */
} ts_env_place;

/* RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE win; the rest is taken from the first of Open
 * MPI's mpirun, srun and a launcher with PMI (MPICH and its kin) that has started this process.
 * Malformed: TS_EINVAL naming the variable. */
ts_status ts_env_place_read(ts_env_place *out);

/* A process of Slurm's batch script is no rank although it has some of a rank's variables. */
bool ts_env_is_batch_script(void);

#define TS_RUN_ID_MAX 64
/* Name of this run, the same on all its ranks and on no others that live: TESSERA_RUN_ID, or what
 * the launcher calls the job; "" if nothing is known. */
void ts_env_run_id(char out[TS_RUN_ID_MAX]);

/* The host of rank 0, where the launcher says it; "" if it does not. */
void ts_env_first_host(char *out, size_t size, const ts_env_place *place);

/* Where rank 0 is as far as the environment tells, a name or an address: MASTER_ADDR, loopback if
 * there is one host only, or the above; "" if it does not. */
void ts_env_master(char *out, size_t size);

/* hostlist.c: host number index of a list as Slurm writes it, "node[01-03,7]-ib,login": true and
 * its name, or false past the end.  Malformed lists have no hosts from the mistake on. */
bool ts_host_list_get(char *out, size_t size, const char *list, int index);

#endif
