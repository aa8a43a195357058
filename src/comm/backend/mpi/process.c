/* SPDX-License-Identifier: Apache-2.0 */
/* MPI belongs to the process: started at most once, by the program or by us. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"

process mpi = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { LEAST_LIMIT = 1024, MOST_LIMIT = 1 << 30, SPINS = 4000 };

bool process_enter(void)
{
    pthread_mutex_lock(&mpi.lock);
    if (!mpi.dead && !mpi.finalized) return true;
    pthread_mutex_unlock(&mpi.lock);
    return false;
}

void process_leave(void) { pthread_mutex_unlock(&mpi.lock); }

ts_status process_error(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0, klass = 0;
    MPI_Error_class(code, &klass);
    MPI_Error_string(code, text, &length);
    return mpi.host->fail(TS_ENETWORK, "mpi: %.*s: %s", (int)strcspn(what, "("), what,
                          length > 0 ? text : "unknown error");
}

/* ---- end ------------------------------------------------------------------------------------- */

/* The last thing that the process does with MPI.  Groups that the program did not destroy stay
 * allocated. */
static void finalize(void)
{
    if (getpid() != mpi.pid) return; /* a fork */
    for (group *g = mpi.groups; g; g = g->next) group_goodbye(g);
    if (!process_enter()) return;
    for (group *g = mpi.groups; g; g = g->next) bells_end(g);
    mpi.finalized = true;
    int done = 0;
    MPI_Finalized(&done);
    if (!done) {
        if (mpi.ready) agree_free_op();
        MPI_Finalize();
    }
    process_leave();
}

/* ---- start ----------------------------------------------------------------------------------- */

static ts_status initialize(void)
{
    int level = 0, finalized = 0, initialized = 0;
    MPI_Finalized(&finalized);
    if (finalized)
        return mpi.host->fail(TS_EBACKEND, "init_process_group: the program has called "
                                           "MPI_Finalize; MPI cannot be started again");
    MPI_Initialized(&initialized);
    if (!initialized) {
        int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
        if (code != MPI_SUCCESS) return process_error(code, "MPI_Init_thread");
        mpi.ours = true;
        mpi.pid = getpid();
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        atexit(finalize);
    }
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED)
        return mpi.host->fail(TS_EBACKEND,
                              "init_process_group: MPI was initialised without thread support; "
                              "call MPI_Init_thread with MPI_THREAD_SERIALIZED, or "
                              "MPI_THREAD_MULTIPLE if the program uses MPI beside the group");
    return TS_OK;
}

static int number_in(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text && atoi(text) > 0 ? atoi(text) : otherwise;
}

/* A launcher that this MPI does not know - tessera run without --mpi, the other MPI's mpirun - starts
 * each rank as a world of its own. */
static ts_status check_world(void)
{
    static const char *const said[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; size == 1 && i < sizeof said / sizeof *said; i++) {
        int expected = number_in(said[i], 1);
        if (expected == 1) continue;
        return mpi.host->fail(
            TS_EBACKEND,
            "init_process_group: MPI knows this process only, but %s is %d; start the ranks with "
            "the mpirun of the MPI that is used, or with tessera run --mpi openmpi|mpich",
            said[i], expected);
    }
    return TS_OK;
}

static void look_around(void)
{
    int size = 1, found = 0, *most = NULL;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int here = number_in("OMPI_COMM_WORLD_LOCAL_SIZE", number_in("MPI_LOCALNRANKS", size));
    here = number_in("LOCAL_WORLD_SIZE", here);
    mpi.spins = here <= sysconf(_SC_NPROCESSORS_ONLN) ? SPINS : 0;
    mpi.limit = mpi.host->setting("TESSERA_MPI_LIMIT");
    if (mpi.limit < LEAST_LIMIT) mpi.limit = LEAST_LIMIT;
    if (mpi.limit > MOST_LIMIT) mpi.limit = MOST_LIMIT;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&most, &found);
    mpi.most_tag = found ? *most : 32767;
}

ts_status process_start(void)
{
    pthread_mutex_lock(&mpi.lock);
    ts_status status = TS_OK;
    if (mpi.dead || mpi.finalized)
        status = mpi.host->fail(TS_EBACKEND,
                                "init_process_group: MPI cannot be used any more in this process: "
                                "an operation on the program's memory was given up; start again");
    else if (!mpi.ready) {
        status = initialize();
        if (status == TS_OK) status = check_world();
        if (status == TS_OK) {
            look_around();
            agree_make_op();
            mpi.ready = true;
        }
    }
    pthread_mutex_unlock(&mpi.lock);
    return status;
}
