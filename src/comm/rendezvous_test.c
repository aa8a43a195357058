/* SPDX-License-Identifier: Apache-2.0 */
/* Init methods: what each needs, and what is said when it is missing. */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

static void clear_environment(void)
{
    static const char *const names[] = {
        "RANK",         "WORLD_SIZE",          "MASTER_ADDR", "MASTER_PORT",
        "SLURM_PROCID", "SLURM_NTASKS",        "PMI_RANK",    "OMPI_COMM_WORLD_RANK",
        "PMI_SIZE",     "OMPI_COMM_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

static ts_status with_method(const char *method, int rank, int size)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.init_method = method;
    opt.rank = rank;
    opt.world_size = size;
    opt.timeout_ms = 5000;
    return ts_init_process_group(&opt);
}

TS_TEST(env_names_what_is_missing)
{
    clear_environment();
    TS_FAIL(ts_init_process_group(NULL), TS_EINVAL, "RANK is not set");
    TS_EXPECT_INT(ts_rank(), 0);
    TS_EXPECT_INT(ts_world_size(), 1);
    setenv("RANK", "1", 1);
    TS_FAIL(ts_init_process_group(NULL), TS_EINVAL, "WORLD_SIZE is not set");
    setenv("WORLD_SIZE", "two", 1);
    TS_FAIL(ts_init_process_group(NULL), TS_EINVAL, "WORLD_SIZE is 'two'");
    setenv("WORLD_SIZE", "2", 1);
    TS_FAIL(ts_init_process_group(NULL), TS_EINVAL, "MASTER_ADDR is not set");
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    TS_FAIL(ts_init_process_group(NULL), TS_EINVAL, "MASTER_PORT is not set");
    setenv("MASTER_PORT", "70000", 1);
    TS_FAIL(ts_init_process_group(NULL), TS_EINVAL, "MASTER_PORT is '70000'");
    setenv("RANK", "2", 1);
    TS_FAIL(ts_init_process_group(NULL), TS_EINVAL, "rank 2 is not in 0 .. 1");
    TS_EXPECT_INT(ts_rank(), 2);
    TS_EXPECT_INT(ts_world_size(), 2);
}

TS_TEST(env_of_one_needs_no_address)
{
    clear_environment();
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    TS_PASS(ts_init_process_group(NULL));
    TS_EXPECT_INT(ts_group_size(NULL), 1);
    TS_PASS(ts_destroy_process_group(NULL));
}

TS_TEST(arguments_win_over_the_environment)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    clear_environment();
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "8", 1);
    opt.rank = 0;
    opt.world_size = 1;
    TS_PASS(ts_init_process_group(&opt));
    TS_EXPECT_INT(ts_group_size(NULL), 1);
    TS_PASS(ts_destroy_process_group(NULL));
}

static ts_status alone_of_two(const char *method, double *seconds)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    struct timespec begin, end;
    opt.init_method = method;
    opt.rank = 0;
    opt.world_size = 2;
    opt.timeout_ms = 300;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    ts_status status = ts_init_process_group(&opt);
    clock_gettime(CLOCK_MONOTONIC, &end);
    *seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    return status;
}

/* Meeting the others ends at the group's limit. */
TS_TEST(meeting_has_the_limit_of_the_group)
{
    char url[300];
    double seconds;
    clear_environment();
    snprintf(url, sizeof url, "file://%s/meet", test->dir);
    TS_FAIL(alone_of_two(url, &seconds), TS_ETIMEOUT, "300 ms");
    TS_EXPECT(seconds > 0.25 && seconds < 3);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", ts_test_port());
    TS_FAIL(alone_of_two(url, &seconds), TS_ETIMEOUT, "300 ms");
    TS_EXPECT(seconds > 0.25 && seconds < 3);
}

/* Then not even rank 0 serves; any other value means nothing. */
TS_TEST(store_of_the_agent_is_only_joined)
{
    char port[16];
    double seconds;
    clear_environment();
    snprintf(port, sizeof port, "%d", ts_test_port());
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    TS_FAIL(alone_of_two("env://", &seconds), TS_ENETWORK, "cannot connect");
    setenv("TORCHELASTIC_USE_AGENT_STORE", "true", 1);
    TS_FAIL(alone_of_two("env://", &seconds), TS_ETIMEOUT, "300 ms");
}

TS_TEST(env_of_slurm)
{
    clear_environment();
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_NTASKS", "1", 1);
    TS_PASS(ts_init_process_group(NULL));
    TS_PASS(ts_destroy_process_group(NULL));
}

TS_TEST(urls_name_what_is_wrong)
{
    clear_environment();
    TS_FAIL(with_method("127.0.0.1:3", 0, 2), TS_EINVAL, "not of the form");
    TS_FAIL(with_method("mpi://", 0, 2), TS_EINVAL, "mpi://");
    TS_FAIL(with_method("tcp://localhost", 0, 2), TS_EINVAL, "no port");
    TS_FAIL(with_method("tcp://:123", 0, 2), TS_EINVAL, "no host");
    TS_FAIL(with_method("tcp://localhost:0", 0, 2), TS_EINVAL, "port");
    TS_FAIL(with_method("tcp://localhost:1", -1, 2), TS_EINVAL, "rank is missing");
    TS_FAIL(with_method("tcp://localhost:1?rank=0", -1, -1), TS_EINVAL, "world_size is missing");
    TS_FAIL(with_method("tcp://localhost:1?rank=0", 0, 2), TS_EINVAL, "twice");
    TS_FAIL(with_method("tcp://localhost:1?rank=x", -1, 2), TS_EINVAL, "'x'");
    TS_FAIL(with_method("tcp://localhost:1?color=1", 0, 2), TS_EINVAL, "color=1");
    TS_FAIL(with_method("file://", 0, 2), TS_EINVAL, "no path");
    TS_FAIL(with_method("tcp://localhost:1", 2, 2), TS_EINVAL, "rank 2");
    TS_FAIL(with_method("tcp://localhost:1", 0, 0), TS_EINVAL, "world size 0");
}

TS_TEST(options_are_checked)
{
    ts_init_options opt = {0};
    TS_FAIL(ts_init_process_group(&opt), TS_EINVAL, "TS_INIT_OPTIONS_INIT");
    opt = (ts_init_options)TS_INIT_OPTIONS_INIT;
    opt.backend = "warp";
    TS_FAIL(ts_init_process_group(&opt), TS_EBACKEND, "warp");
    opt.backend = "Gloo";
    opt.timeout_ms = -5;
    TS_FAIL(ts_init_process_group(&opt), TS_EINVAL, "-5");
    opt.timeout_ms = 0;
    TS_PASS(ts_hash_store_new(&opt.store));
    opt.init_method = "env://";
    TS_FAIL(ts_init_process_group(&opt), TS_EINVAL, "exclude");
    opt.init_method = NULL;
    TS_FAIL(ts_init_process_group(&opt), TS_EINVAL, "world size -1");
    ts_store_free(opt.store);
}

static void sums(ts_test *test)
{
    ts_tensor *t = ts_ones(TS_SHAPE(5), NULL);
    TS_PASS(ts_all_reduce(NULL, t, TS_SUM, NULL));
    TS_EXPECT_ALL(t, test->size);
}

static int count_entries(const char *folder)
{
    int n = 0;
    DIR *dir = opendir(folder);
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}

/* What other systems hang on: one store, the group made and destroyed again and again. */
TS_TEST(reported_groups_again_and_again_on_one_store, .ranks = 2, .no_group = true,
        .mode = TS_TEST_PROCESSES)
{
    int fds = 0, threads = 0;
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.store = test->store;
    opt.rank = test->rank;
    opt.world_size = test->size;
    for (int round = 1; round <= 20; round++) {
        TS_PASS(ts_init_process_group(&opt));
        ts_tensor *t = ts_full(TS_SHAPE(1), test->rank + 1, NULL);
        TS_PASS(ts_all_reduce(NULL, t, TS_SUM, NULL));
        TS_EXPECT_ALL(t, 3);
        TS_PASS(ts_destroy_process_group(NULL));
        if (round == 2) {
            fds = count_entries("/proc/self/fd");
            threads = count_entries("/proc/self/task");
        }
    }
    TS_EXPECT_INT(count_entries("/proc/self/fd"), fds);
    TS_EXPECT_INT(count_entries("/proc/self/task"), threads);
}

static ts_status join_over(ts_test *test, ts_store *store)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.store = store;
    opt.rank = test->rank;
    opt.world_size = test->size;
    return ts_init_process_group(&opt);
}

/* What failed over one store says nothing about the next one, even if another rank was there first. */
TS_TEST(another_store_after_a_failed_init, .ranks = 2, .hosts = 2, .no_group = true,
        .mode = TS_TEST_PROCESSES)
{
    ts_store *first, *second;
    const char *key = "tessera/generation";
    TS_PASS(ts_prefix_store_new(&first, "first", test->store));
    TS_PASS(ts_prefix_store_new(&second, "second", test->store));
    setenv("TESSERA_SOCKET_IFNAME", "nosuch0", 1);
    TS_FAIL(join_over(test, first), TS_ENETWORK, "nosuch0");
    unsetenv("TESSERA_SOCKET_IFNAME");
    if (test->rank == 1) TS_PASS(ts_store_wait(second, &key, 1, -1));
    TS_PASS(join_over(test, second));
    TS_PASS(ts_barrier(NULL, NULL));
    TS_PASS(ts_destroy_process_group(NULL));
    ts_store_free(first);
    ts_store_free(second);
}

/* Init, work and destroy several times on one port, which rank 0 tells the others. */
TS_TEST(tcp_again_and_again, .ranks = 4, .no_group = true, .mode = TS_TEST_PROCESSES)
{
    char url[96];
    void *text;
    size_t size;
    if (test->rank == 0) {
        snprintf(url, sizeof url, "tcp://127.0.0.1:%d", ts_test_port());
        TS_PASS(ts_store_set(test->store, "url", url, strlen(url)));
    }
    TS_PASS(ts_store_get(test->store, "url", &text, &size));
    for (int round = 0; round < 6; round++) {
        TS_PASS(with_method(text, test->rank, test->size));
        sums(test);
        if (test->failures) return;
        TS_PASS(ts_destroy_process_group(NULL));
    }
    free(text);
}

/* Ranks as a launcher starts them. */
static void set_environment(ts_test *test, const char *world_size)
{
    char number[16];
    void *port;
    size_t size;
    clear_environment();
    if (test->rank == 0) {
        snprintf(number, sizeof number, "%d", ts_test_port());
        TS_PASS(ts_store_set(test->store, "port", number, strlen(number)));
    }
    TS_PASS(ts_store_get(test->store, "port", &port, &size));
    setenv("MASTER_PORT", port, 1);
    snprintf(number, sizeof number, "%d", test->rank);
    setenv("RANK", number, 1);
    setenv("WORLD_SIZE", world_size, 1);
    free(port);
}

TS_TEST(env_with_processes, .ranks = 4, .no_group = true, .mode = TS_TEST_PROCESSES)
{
    set_environment(test, "4");
    for (int round = 0; round < 2; round++) { /* rank 0, which serves, may do without its address */
        if (round == 1 || test->rank > 0) setenv("MASTER_ADDR", "127.0.0.1", 1);
        TS_PASS(ts_init_process_group(NULL));
        sums(test);
        if (test->failures) return;
        TS_PASS(ts_destroy_process_group(NULL));
    }
}

TS_TEST(object_groups_by_the_environment, .ranks = 2, .no_group = true, .mode = TS_TEST_PROCESSES)
{
    ts_group *group[2];
    ts_tensor *t = ts_ones(TS_SHAPE(2), NULL);
    set_environment(test, "2");
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    for (int i = 0; i < 2; i++) TS_PASS(ts_process_group_new(&group[i], NULL, -1, -1, NULL));
    TS_PASS(ts_all_reduce(group[1], t, TS_SUM, NULL));
    TS_PASS(ts_init_process_group(NULL));
    TS_PASS(ts_destroy_process_group(group[1]));
    TS_PASS(ts_all_reduce(group[0], t, TS_SUM, NULL));
    TS_PASS(ts_all_reduce(NULL, t, TS_SUM, NULL));
    TS_EXPECT_ALL(t, 8);
    TS_PASS(ts_barrier(group[0], NULL));
}

TS_TEST(file_with_processes, .ranks = 4, .no_group = true, .mode = TS_TEST_PROCESSES)
{
    char url[512], path[480];
    snprintf(path, sizeof path, "%s/meet", test->dir);
    snprintf(url, sizeof url, "file://%s?rank=%d", path, test->rank);
    TS_PASS(with_method(url, -1, 4));
    sums(test);
    TS_PASS(ts_destroy_process_group(NULL));
    ts_test_meet(test, "left");
    TS_EXPECT(access(path, F_OK) != 0);
}
