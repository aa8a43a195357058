/* SPDX-License-Identifier: Apache-2.0 */
/* The table on every backend, number of ranks and way of transport. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../cli/cli.h"
#include "comm/backend/native/select.h"
#include "comm/names.h"
#include "paths.h"

static void conform(ts_test *test, unsigned flags)
{
    /* It keeps many bytes for each one of a tensor: more than machines have. */
    if (TS_TEST_THREAD_SANITIZER && flags & CONF_LONG) {
        fprintf(stderr, "thread sanitizer: without the long tensors\n");
        flags = (flags & ~(unsigned)CONF_LONG) | CONF_QUICK;
    }
    TS_EXPECT_INT(ts_conformance(NULL, NULL, flags), 0);
}

TS_TEST(conformance_1, .ranks = 1) { conform(test, 0); }
/* All that there is, once with processes and once with threads. */
TS_TEST(conformance_2, .ranks = 2, .timeout_s = 120)
{
    conform(test, test->threads ? CONF_QUICK : CONF_LONG);
}
TS_TEST(conformance_3, .ranks = 3, .timeout_s = 120)
{
    conform(test, CONF_QUICK | (test->threads ? CONF_LONG : 0));
}
TS_TEST(conformance_4, .ranks = 4, .timeout_s = 120) { conform(test, CONF_QUICK); }
TS_TEST(conformance_5, .ranks = 5, .timeout_s = 120) { conform(test, CONF_QUICK); }
TS_TEST(conformance_8, .ranks = 8, .timeout_s = 120) { conform(test, CONF_QUICK); }

#define PROCESSES .mode = TS_TEST_PROCESSES, .timeout_s = 120
TS_TEST(conformance_hosts_2, .ranks = 2, .hosts = 2, PROCESSES) { conform(test, CONF_QUICK); }
TS_TEST(conformance_hosts_3, .ranks = 3, .hosts = 3, PROCESSES) { conform(test, CONF_QUICK); }
TS_TEST(conformance_hosts_4, .ranks = 4, .hosts = 2, PROCESSES) { conform(test, CONF_QUICK); }
TS_TEST(conformance_hosts_5, .ranks = 5, .hosts = 2, PROCESSES) { conform(test, CONF_QUICK); }
TS_TEST(conformance_hosts_8, .ranks = 8, .hosts = 3, PROCESSES) { conform(test, CONF_QUICK); }

static void join(ts_test *test, const char *backend)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.backend = backend;
    opt.rank = test->rank;
    opt.world_size = test->size;
    opt.store = test->store;
    TS_PASS(ts_init_process_group(&opt));
}

static void without_shared_memory(ts_test *test)
{
    setenv("TESSERA_SHARED_MEMORY", "0", 1);
    join(test, NULL);
    if (ts_is_initialized()) conform(test, CONF_QUICK);
}

TS_TEST(conformance_without_shared_memory_2, .ranks = 2, .no_group = true, PROCESSES)
{
    without_shared_memory(test);
}
TS_TEST(conformance_without_shared_memory_4, .ranks = 4, .no_group = true, PROCESSES)
{
    without_shared_memory(test);
}

/* On a group of some ranks, which shares the links of all. */
static void conform_in_subgroup(ts_test *test)
{
    static const int first[] = {0, 1, 2};
    ts_group *group;
    TS_PASS(ts_new_group(&group, first, 3, NULL));
    if (ts_is_member(group)) TS_EXPECT_INT(ts_conformance(group, NULL, CONF_QUICK), 0);
}

TS_TEST(conformance_of_a_subgroup, .ranks = 4, .timeout_s = 120) { conform_in_subgroup(test); }
TS_TEST(conformance_of_a_subgroup_of_hosts, .ranks = 4, .hosts = 2, PROCESSES)
{
    conform_in_subgroup(test);
}

/* Rank 1 of 4, without the others. */
TS_TEST(conformance_fake)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.backend = "fake";
    opt.rank = 1;
    opt.world_size = 4;
    TS_PASS(ts_init_process_group(&opt));
    conform(test, CONF_QUICK | CONF_FAKE);
    TS_PASS(ts_destroy_process_group(NULL));
}

/* A job of the program of one rank, which prints a line where all went well. */
static void conform_under(ts_test *test, const char *launcher, int ranks, const char *arguments)
{
    static cli_job job;
    char line[1024];
    snprintf(line, sizeof line, "%s -n %d " TS_BINARY_DIR "/bin/conformance %s", launcher, ranks,
             arguments);
    cli_run(test, &job, line);
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_INT(cli_count_text(job.out, "conforms"), ranks);
}

TS_TEST(conformance_own_backend, .timeout_s = 120)
{
    conform_under(test, "$T run -q", 3, "by_store");
}

/* Every operation that has the algorithm, as TESSERA_ALGORITHM names it; false: none has. */
static bool set_algorithm(ts_algorithm algorithm, int hosts)
{
    char text[1024] = "";
    for (int id = 0; id < TS_NUM_COLLECTIVES; id++) {
        unsigned offered = ts_algorithms_offered((ts_collective)id, ts_hosts_class_of(hosts));
        size_t used = strlen(text);
        if (offered >> algorithm & 1)
            snprintf(text + used, sizeof text - used, "%s%s:%s", used ? "," : "",
                     ts_collective_name((ts_collective)id), ts_algorithm_name(algorithm));
    }
    setenv("TESSERA_ALGORITHM", text, 1);
    return *text != '\0';
}

/* Also at sizes for which the table would choose another one. */
static void conform_by_every_algorithm(ts_test *test, int hosts)
{
    for (int a = 0; a < TS_NUM_ALGORITHMS && !test->failures; a++) {
        if (!set_algorithm((ts_algorithm)a, hosts)) continue;
        join(test, NULL);
        if (!ts_is_initialized()) return;
        conform(test, CONF_QUICK);
        TS_PASS(ts_destroy_process_group(NULL));
        if (test->failures)
            TS_FAIL_TEST("with the algorithm %s", ts_algorithm_name((ts_algorithm)a));
    }
}

#define BY_EVERY_ALGORITHM(num_ranks, num_hosts)                                                   \
    TS_TEST(conformance_of_every_algorithm_##num_ranks##_on_##num_hosts, .ranks = num_ranks,       \
            .hosts = num_hosts, .no_group = true, PROCESSES)                                       \
    {                                                                                              \
        conform_by_every_algorithm(test, num_hosts);                                               \
    }
BY_EVERY_ALGORITHM(2, 1)
BY_EVERY_ALGORITHM(3, 1)
BY_EVERY_ALGORITHM(2, 2)
BY_EVERY_ALGORITHM(4, 2)
BY_EVERY_ALGORITHM(5, 3)
BY_EVERY_ALGORITHM(9, 9)

#define UNDER_MPI(name, launcher)                                                                  \
    TS_TEST(conformance_##name, .skip_unless = "mpirun." #name, .timeout_s = 120)                  \
    {                                                                                              \
        cli_need_plugin(test, "mpi_" #name);                                                       \
        conform_under(test, launcher, 3, "mpi");                                                   \
        conform_under(test, launcher, 1, "mpi");                                                   \
    }                                                                                              \
    TS_TEST(conformance_##name##_in_parts, .skip_unless = "mpirun." #name, .timeout_s = 120)       \
    {                                                                                              \
        cli_need_plugin(test, "mpi_" #name);                                                       \
        setenv("TESSERA_MPI_LIMIT", "4096", 1); /* long operations are cut */                      \
        conform_under(test, launcher, 2, "mpi");                                                   \
    }                                                                                              \
    TS_TEST(conformance_##name##_under_tessera_run, .timeout_s = 120)                              \
    {                                                                                              \
        cli_need_plugin(test, "mpi_" #name);                                                       \
        conform_under(test, "$T run -q --mpi " #name, 2, "mpi");                                   \
    }

/* More bytes than MPI's counts hold: minutes on some machines, and memory for two such tensors. */
#define LARGE_UNDER_MPI(name, launcher)                                                            \
    TS_TEST(conformance_##name##_large, .skip_unless = "mpirun." #name, .timeout_s = 300)          \
    {                                                                                              \
        cli_need_plugin(test, "mpi_" #name);                                                       \
        if (!getenv("TESSERA_TEST_SOAK")) ts_test_skip(test, "a part of make soak");               \
        setenv("TESSERA_MPI_LIMIT", "1GiB", 1);                                                    \
        conform_under(test, launcher, 2, "mpi large");                                             \
    }

UNDER_MPI(openmpi, "mpirun.openmpi --allow-run-as-root --oversubscribe")
UNDER_MPI(mpich, "mpirun.mpich")
LARGE_UNDER_MPI(openmpi, "mpirun.openmpi --allow-run-as-root --oversubscribe")
LARGE_UNDER_MPI(mpich, "mpirun.mpich")
