/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that other launchers start find each other by themselves. */
#include "cli.h"
#include "paths.h"

#define OPENMPI "mpirun.openmpi --allow-run-as-root --oversubscribe -n "
#define LESSON TS_BINARY_DIR "/bin/03_collectives"

static cli_job job, other;

TS_TEST(mpirun_of_open_mpi_starts_native_ranks, .skip_unless = "mpirun.openmpi")
{
    cli_run(test, &job, OPENMPI "3 " LESSON);
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "sum of 1 .. 3 is 6");
}

/* Shells may stand between mpirun and the ranks. */
TS_TEST(mpirun_of_mpich_starts_native_ranks, .skip_unless = "mpirun.mpich")
{
    cli_run(test, &job, "mpirun.mpich -n 3 sh -c '" LESSON "; exit $?'");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "sum of 1 .. 3 is 6");
}

static void two_jobs(ts_test *test, const char *line)
{
    cli_start(test, &job, line);
    cli_start(test, &other, line);
    cli_wait(&job);
    cli_wait(&other);
    CLI_EXPECT_STATUS(&job, 0);
    CLI_EXPECT_STATUS(&other, 0);
    TS_EXPECT_TEXT(job.out, "sum of 1 .. 2 is 3");
    TS_EXPECT_TEXT(other.out, "sum of 1 .. 2 is 3");
}

TS_TEST(mpirun_two_jobs_do_not_meet_each_other, .skip_unless = "mpirun.mpich")
{
    two_jobs(test, "mpirun.mpich -n 2 " LESSON);
}

TS_TEST(mpirun_two_jobs_of_open_mpi_do_not_meet_each_other, .skip_unless = "mpirun.openmpi")
{
    two_jobs(test, OPENMPI "2 " LESSON);
}

TS_TEST(run_shows_the_phases_of_the_start)
{
    cli_run(test, &job, "$T run -q -n 2 --timing " LESSON);
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.err, "start of 2 rank(s), ms:");
    TS_EXPECT_TEXT(job.err, "  exec and libraries ");
    TS_EXPECT_TEXT(job.err, "  in all ");
    cli_run(test, &job, "env TESSERA_TIMING=1 RANK=0 WORLD_SIZE=1 " LESSON);
    TS_EXPECT_TEXT(job.err, "start of 1 rank(s), ms:");
    cli_run(test, &job, "$T run -q -n 2 " LESSON);
    TS_EXPECT_STR(job.err, "");
}

TS_TEST(run_two_jobs_train_at_once) { two_jobs(test, "$T run -q -n 2 " LESSON); }

/* A host without any IPv4 address, not even the loopback's. */
TS_TEST(run_on_a_host_without_ipv4, .skip_unless = "unshare")
{
    cli_run(test, &job, "unshare -n sh -c 'ip link set lo up && ip addr del 127.0.0.1/8 dev lo'");
    if (job.status != 0) ts_test_skip(test, "network namespaces need root: %s", job.err);
    cli_run(
        test, &job,
        "unshare -n sh -c 'ip link set lo up; ip addr del 127.0.0.1/8 dev lo; exec $T run -q -n "
        "2 " LESSON "'");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "sum of 1 .. 2 is 3");
    cli_run(test, &job,
            "unshare -n sh -c 'ip link set lo up; ip addr del 127.0.0.1/8 dev lo; export "
            "SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_NODELIST=here; SLURM_PROCID=1 "
            "TESSERA_HOST_ID=a " LESSON " & SLURM_PROCID=0 TESSERA_HOST_ID=b " LESSON "'");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "sum of 1 .. 2 is 3");
}
