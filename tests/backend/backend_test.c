/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs in which a rank fails, under the launchers that bring their own world. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../cli/cli.h"
#include "paths.h"

#define OPENMPI "mpirun.openmpi --allow-run-as-root --oversubscribe"
#define MPICH "mpirun.mpich"

static void run(ts_test *test, cli_job *job, const char *launcher, int ranks, const char *what)
{
    char line[1024];
    snprintf(line, sizeof line, "%s -n %d " TS_BINARY_DIR "/bin/failing-rank mpi %s", launcher,
             ranks, what);
    cli_run(test, job, line);
}

#define EXPECT_OK(ranks)                                                                           \
    do {                                                                                           \
        CLI_EXPECT_STATUS(&job, 0);                                                                \
        TS_EXPECT_INT(cli_count_text(job.out, "ok "), ranks);                                      \
    } while (0)

#define UNDER(name, launcher)                                                                      \
    TS_TEST(mpi_##name##_ranks_that_do_not_come, .skip_unless = "mpirun." #name, .timeout_s = 60)  \
    {                                                                                              \
        static cli_job job;                                                                        \
        cli_need_plugin(test, "mpi_" #name);                                                       \
        run(test, &job, launcher, 3, "late");                                                      \
        EXPECT_OK(3);                                                                              \
        run(test, &job, launcher, 3, "leave");                                                     \
        EXPECT_OK(3);                                                                              \
        run(test, &job, launcher, 3, "abort");                                                     \
        EXPECT_OK(3);                                                                              \
        run(test, &job, launcher, 2, "forgets");                                                   \
        EXPECT_OK(2);                                                                              \
    }                                                                                              \
    TS_TEST(mpi_##name##_killed_rank, .skip_unless = "mpirun." #name, .timeout_s = 60)             \
    {                                                                                              \
        static cli_job job;                                                                        \
        cli_need_plugin(test, "mpi_" #name);                                                       \
        run(test, &job, launcher, 3, "killed");                                                    \
        TS_EXPECT(job.status != 0);                                                                \
        TS_EXPECT(job.seconds < 10);                                                               \
        TS_EXPECT_INT(cli_count_text(job.out, "ok "), 0);                                          \
    }                                                                                              \
    TS_TEST(mpi_##name##_ignores_given_ranks, .skip_unless = "mpirun." #name, .timeout_s = 60)     \
    {                                                                                              \
        static cli_job job;                                                                        \
        cli_need_plugin(test, "mpi_" #name);                                                       \
        run(test, &job, launcher, 2, "given");                                                     \
        EXPECT_OK(2);                                                                              \
        TS_EXPECT_TEXT(job.err, "world_size 5 is ignored; backend 'mpi' says 2");                  \
    }

UNDER(openmpi, OPENMPI)
UNDER(mpich, MPICH)

/* The launcher serves PMI-1 and PMIx itself. */
#define UNDER_RUN(name)                                                                            \
    TS_TEST(mpi_##name##_under_tessera_run, .timeout_s = 60)                                       \
    {                                                                                              \
        static cli_job job;                                                                        \
        cli_need_plugin(test, "mpi_" #name);                                                       \
        if (strcmp(#name, "openmpi") == 0) cli_need_plugin(test, "pmix");                          \
        char left[128];                                                                            \
        const char *launcher = "$T run -q --mpi " #name;                                           \
        run(test, &job, launcher, 3, "leave");                                                     \
        EXPECT_OK(3);                                                                              \
        run(test, &job, launcher, 1, "forgets");                                                   \
        EXPECT_OK(1);                                                                              \
        run(test, &job, "$T run -q --max-restarts 1 --mpi " #name, 3, "killed");                   \
        CLI_EXPECT_STATUS(&job, 137);                                                              \
        TS_EXPECT(job.seconds < 10);                                                               \
        TS_EXPECT_INT(cli_count_text(job.err, "rank 1 (pid"), 2);                                  \
        snprintf(left, sizeof left, "sh -c 'ls /dev/shm | grep -c tessera-mpi-%d-'",               \
                 (int)job.pid);                                                                    \
        cli_run(test, &job, left);                                                                 \
        TS_EXPECT_STR(job.out, "0\n");                                                             \
    }

UNDER_RUN(openmpi)
UNDER_RUN(mpich)

TS_TEST(mpi_openmpi_launcher_killed_leaves_no_shared_memory, .timeout_s = 30)
{
    static cli_job job, look;
    char mark[64], there[128];
    cli_need_plugin(test, "pmix");
    snprintf(mark, sizeof mark, "CLI_MARK=%d", (int)getpid());
    putenv(mark);
    cli_start(test, &job, "$T run -q -n 2 --mpi openmpi sleep 60");
    unsetenv("CLI_MARK");
    TS_EXPECT_INT(cli_wait_marked(mark, 4, 10), 4); /* launcher, guard, sleeps */
    snprintf(there, sizeof there, "sh -c 'cd /dev/shm/tessera-mpi-%d-* && touch segment'",
             (int)job.pid);
    cli_run(test, &look, there);
    CLI_EXPECT_STATUS(&look, 0);
    kill(job.pid, SIGKILL);
    cli_wait(&job);
    TS_EXPECT_INT(cli_wait_marked(mark, 0, 10), 0);
    snprintf(there, sizeof there, "sh -c 'ls /dev/shm | grep -c tessera-mpi-%d-'", (int)job.pid);
    cli_run(test, &look, there);
    TS_EXPECT_STR(look.out, "0\n");
}

TS_TEST(mpi_measured_by_bench_coll, .skip_unless = "mpirun.openmpi", .timeout_s = 60)
{
    static cli_job job;
    cli_need_plugin(test, "mpi_openmpi");
    cli_need_plugin(test, "pmix");
    cli_run(test, &job, "$T bench coll --backend mpi");
    CLI_EXPECT_STATUS(&job, 2);
    TS_EXPECT_TEXT(job.err, "--mpi openmpi or --mpi mpich, or start the ranks with mpirun");
    cli_run(
        test, &job,
        "$T bench coll --backend mpi --mpi openmpi --bytes 1K --seconds 0.01 --no-limit --json");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "\"backend\":\"mpi\"");
}

TS_TEST(mpi_needs_its_own_launcher, .skip_unless = "mpirun.openmpi", .timeout_s = 60)
{
    static cli_job job;
    cli_need_plugin(test, "mpi_openmpi");
    cli_run(test, &job, "$T run -q -n 2 " TS_BINARY_DIR "/bin/failing-rank mpi forgets");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT(!strstr(job.err, "MPI_ERR"));
    TS_EXPECT_TEXT(job.err, "MPI knows this process only, but WORLD_SIZE is 2");

    setenv("TESSERA_MPI", "openmpi", 1);
    setenv("PMI_SIZE", "2", 1); /* as the other MPI's mpirun */
    cli_run(test, &job, TS_BINARY_DIR "/bin/conformance mpi");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "MPI knows this process only, but PMI_SIZE is 2");
}

TS_TEST(mpi_plugins_are_looked_for)
{
    static cli_job job;
    setenv("TESSERA_MPI", "nosuch", 1);
    cli_run(test, &job, TS_BINARY_DIR "/bin/failing-rank mpi forgets");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "libtessera_mpi_nosuch.so is in none of: ");
    TS_EXPECT_TEXT(job.err, "lib/tessera");
    cli_run(test, &job, "touch libtessera_mpi_nosuch.so");
    setenv("TESSERA_PLUGIN_PATH", test->dir, 1);
    cli_run(test, &job, TS_BINARY_DIR "/bin/failing-rank mpi forgets");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "libtessera_mpi_nosuch.so does not load: ");
}
