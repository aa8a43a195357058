/* SPDX-License-Identifier: Apache-2.0 */
/* What other launchers say about a process, and how ranks meet by it. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tessera/ext/rendezvous.h>
#include <unistd.h>

#include "comm/environment.h"
#include "comm/meet.h"
#include "comm/publish.h"
#include "net/interface.h"
#include "net/socket.h"
#include "test.h"

static void clear_environment(void)
{
    static const char *const prefixes[] = {
        "SLURM_",     "OMPI_",       "PMI",  "MPI_",       "MASTER_",       "TORCHELASTIC",
        "LOCAL_RANK", "LOCAL_WORLD", "RANK", "WORLD_SIZE", "TESSERA_RUN_ID"};
    char name[128];
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        for (char **e = environ; *e;) {
            snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
            if (strncmp(name, prefixes[i], strlen(prefixes[i])) != 0 || unsetenv(name) != 0) e++;
        }
}

/* "A=1 B=2" into the environment. */
static void set_all(const char *pairs)
{
    char text[512], *state = NULL;
    snprintf(text, sizeof text, "%s", pairs);
    for (char *item = strtok_r(text, " ", &state); item; item = strtok_r(NULL, " ", &state)) {
        char *equals = strchr(item, '=');
        *equals = '\0';
        setenv(item, equals + 1, 1);
    }
}

TS_TEST(host_lists_of_slurm)
{
    static const struct {
        const char *list;
        int index;
        const char *host; /* NULL: there is none */
    } cases[] = {{"node7", 0, "node7"},
                 {"node7", 1, NULL},
                 {"node[01-03,7]", 0, "node01"},
                 {"node[01-03,7]", 2, "node03"},
                 {"node[01-03,7]", 3, "node7"},
                 {"node[01-03,7]", 4, NULL},
                 {"login,node[9-11]-ib,z", 0, "login"},
                 {"login,node[9-11]-ib,z", 3, "node11-ib"},
                 {"login,node[9-11]-ib,z", 4, "z"},
                 {"r[1-2]n[08-09]", 3, "r2n09"},
                 {"node[098-101]", 2, "node100"},
                 {"", 0, NULL},
                 {"node[3-1]", 0, NULL},
                 {"node[1-", 0, NULL},
                 {"node[]", 0, NULL},
                 {"node[a]", 0, NULL},
                 {"node[1-2", 1, NULL},
                 {"node[1-99999999999]", 0, NULL}};
    char host[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool found = ts_host_list_get(host, sizeof host, cases[i].list, cases[i].index);
        if (found != (cases[i].host != NULL) || (found && strcmp(host, cases[i].host) != 0))
            TS_FAIL_TEST("host %d of %s is %s", cases[i].index, cases[i].list,
                         found ? host : "none");
    }
    TS_EXPECT(!ts_host_list_get(host, 4, "node7", 0)); /* no room */
}

typedef struct launcher_case {
    const char *variables;
    int rank, size, local_rank;
    bool one_host;
    const char *host, *run;
} launcher_case;

static void check_case(ts_test *test, const launcher_case *c)
{
    ts_env_place p;
    char host[64], run[TS_RUN_ID_MAX];
    int local = -2;
    clear_environment();
    set_all(c->variables);
    TS_PASS(ts_env_place_read(&p));
    ts_env_first_host(host, sizeof host, &p);
    ts_env_run_id(run);
    TS_PASS(ts_node_local_rank(&local, 99));
    bool right = p.rank == c->rank && p.size == c->size && local == c->local_rank &&
                 p.one_host == c->one_host && strcmp(host, c->host) == 0 &&
                 strcmp(run, c->run) == 0;
    if (!right)
        TS_FAIL_TEST("%s: rank %d, size %d, local %d, one host %d, host '%s', run '%s'",
                     c->variables, p.rank, p.size, local, p.one_host, host, run);
    if (c->rank >= 0) TS_EXPECT_INT(ts_rank(), c->rank);
    if (c->size >= 0) TS_EXPECT_INT(ts_world_size(), c->size);
}

#define STEP "SLURM_JOB_ID=7 SLURM_STEP_ID=2 SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_LOCALID=1 "

TS_TEST(variables_of_launchers)
{
    static const launcher_case cases[] = {
        {"RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", 3, 4, 1, false, "", ""},
        {"RANK=0 WORLD_SIZE=1", 0, 1, 99, true, "", ""},
        {STEP "SLURM_STEP_NODELIST=n[3-4]", 5, 8, 1, false, "n3", "slurm-7.2.0"},
        {STEP "SLURM_NODELIST=n3 SLURM_RESTART_COUNT=4", 5, 8, 1, true, "n3", "slurm-7.2.4"},
        {STEP "SLURM_STEP_NUM_TASKS=6", 5, 6, 1, false, "", "slurm-7.2.0"},
        {STEP "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0", 1, 2, 0, false, "", ""},
        {STEP "WORLD_SIZE=9 TESSERA_RUN_ID=mine", 5, 9, 1, false, "", "mine"},
        {STEP "PMI_RANK=5 PMI_SIZE=8", 5, 8, 1, false, "", "slurm-7.2.0"},
        {STEP "PMI_RANK=3 PMI_SIZE=16 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=8", 3, 16, 2, false, "",
         ""},
        {STEP "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 "
              "OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=55 SLURM_JOB_NODELIST=a,b",
         2, 4, 0, false, "a", "mpirun-55"},
        {"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=2 "
         "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=55",
         2, 4, 2, true, "", "mpirun-55"},
        {"PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", 1, 4, 1, false, "", ""},
        {"SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=7", -1, -1, 99, false, "", ""},
        {"TORCHELASTIC_RUN_ID=none RANK=0 WORLD_SIZE=2", 0, 2, 99, false, "", ""},
        {"TORCHELASTIC_RUN_ID=abc RANK=0 WORLD_SIZE=2", 0, 2, 99, false, "", "abc"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_case(test, &cases[i]);
        if (test->failures) return;
    }
}

TS_TEST(variables_of_launchers_that_are_malformed)
{
    ts_env_place p;
    clear_environment();
    set_all("OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=4");
    TS_FAIL(ts_env_place_read(&p), TS_EINVAL, "OMPI_COMM_WORLD_RANK is 'x'");
    set_all("RANK=-1 WORLD_SIZE=4");
    TS_FAIL(ts_env_place_read(&p), TS_EINVAL, "RANK is '-1'");
    TS_FAIL(ts_init_process_group(NULL), TS_EINVAL, "RANK is '-1'");
}

TS_TEST(local_rank_without_launcher)
{
    int local = -2;
    clear_environment();
    TS_FAIL(ts_node_local_rank(&local, -1), TS_EINVAL,
            "LOCAL_RANK is not set and there is no fall");
    TS_EXPECT_INT(local, -2);
    TS_PASS(ts_node_local_rank(&local, 3));
    TS_EXPECT_INT(local, 3);
    TS_EXPECT(!ts_is_torchelastic_launched());
    setenv("TORCHELASTIC_RUN_ID", "", 1);
    TS_EXPECT(ts_is_torchelastic_launched());
}

/* A batch script of Slurm has variables of a rank; it is told about srun. */
TS_TEST(batch_script_of_slurm_is_no_rank)
{
    clear_environment();
    set_all("SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=7");
    TS_FAIL(ts_init_process_group(NULL), TS_EINVAL, "srun PROGRAM");
}

/* Ranks as a launcher starts them: processes of this one with the variables of variables, in which
 * %d stands for the rank. */
static void run_ranks(ts_test *test, int n, const char *variables, bool as_hosts)
{
    pid_t pid[8];
    int status;
    char job[16]; /* tests may run several times at once on this host */
    snprintf(job, sizeof job, "%d", (int)getpid());
    fflush(NULL);
    for (int rank = 0; rank < n; rank++) {
        if ((pid[rank] = fork()) != 0) continue;
        char text[512], id[16];
        snprintf(text, sizeof text, variables, rank, rank);
        snprintf(id, sizeof id, "pretend%d", rank);
        clear_environment();
        set_all(text);
        if (getenv("SLURM_STEP_ID")) setenv("SLURM_JOB_ID", job, 1);
        if (as_hosts) setenv("TESSERA_HOST_ID", id, 1);
        setenv("TESSERA_TIMEOUT", "8000", 1);
        double sum = 0;
        for (int round = 0; round < 3; round++) {
            ts_must(ts_init_process_group(NULL));
            ts_tensor *t = ts_ones(TS_SHAPE(1), NULL);
            ts_must(ts_all_reduce(NULL, t, TS_SUM, NULL));
            ts_must(ts_item(t, &sum));
            ts_must(ts_destroy_process_group(NULL));
        }
        fflush(NULL);
        _exit(sum == n ? 0 : 9);
    }
    for (int rank = 0; rank < n; rank++) {
        waitpid(pid[rank], &status, 0);
        if (status != 0) ts_test_fail(test, __FILE__, __LINE__, "rank %d: %d", rank, status);
    }
}

TS_TEST(slurm_ranks_meet_on_one_host)
{
    run_ranks(test, 3,
              "SLURM_STEP_ID=0 SLURM_NTASKS=3 SLURM_NODELIST=here "
              "SLURM_PROCID=%d SLURM_LOCALID=%d",
              false);
}

TS_TEST(slurm_ranks_meet_on_the_first_host)
{
    run_ranks(test, 3,
              "SLURM_STEP_ID=0 SLURM_NTASKS=3 SLURM_NODELIST=localhost,b,c "
              "SLURM_PROCID=%d SLURM_LOCALID=0",
              true);
}

TS_TEST(slurm_ranks_meet_at_a_given_address)
{
    run_ranks(test, 2,
              "SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_NODELIST=nowhere[1-2] "
              "MASTER_ADDR=127.0.0.1 SLURM_PROCID=%d SLURM_LOCALID=0",
              true);
}

TS_TEST(pmi_ranks_meet_on_one_host)
{
    run_ranks(test, 2, "PMI_RANK=%d PMI_SIZE=2 MPI_LOCALRANKID=%d MPI_LOCALNRANKS=2", false);
}

/* ---- translated addresses -------------------------------------------------------------------- */

/* Carries one connection on from the port of 127.0.0.2 to that of 127.0.0.1, as a translation of
 * addresses does. */
_Noreturn static void carry(int from, int port, int seen)
{
    char data[4096];
    int ends[2];
    if (ts_socket_accept(&ends[0], from, ts_deadline_in(8000)) != TS_OK) _exit(1);
    if (write(seen, "x", 1) != 1) _exit(1);
    if (ts_tcp_connect(&ends[1], "127.0.0.1", port, ts_deadline_in(1000)) != TS_OK) _exit(1);
    for (;;) {
        struct pollfd ready[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}};
        poll(ready, 2, -1);
        for (int i = 0; i < 2; i++) {
            if (!ready[i].revents) continue;
            ssize_t n = read(ends[i], data, sizeof data);
            if (n <= 0) _exit(0);
            ts_send_all(ends[1 - i], data, (size_t)n, "a rank", ts_deadline_in(5000));
        }
    }
}

static void sum_once(ts_test *test, int rank, const char *url)
{
    double sum = 0;
    char id[16];
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    snprintf(id, sizeof id, "pretend%d", rank);
    setenv("TESSERA_HOST_ID", id, 1);
    opt.init_method = url;
    opt.rank = rank;
    opt.world_size = 2;
    opt.timeout_ms = 6000;
    ts_must(ts_init_process_group(&opt));
    ts_tensor *t = ts_ones(TS_SHAPE(1), NULL);
    ts_must(ts_all_reduce(NULL, t, TS_SUM, NULL));
    ts_must(ts_item(t, &sum));
    ts_must(ts_destroy_process_group(NULL));
    TS_EXPECT_NEAR(sum, 2, 0);
}

TS_TEST(published_address_is_another_one)
{
    int from, inner, seen[2], port, status;
    char text[64], url[300];
    clear_environment();
    TS_PASS(ts_tcp_listen(&from, "127.0.0.2", 0)); /* the outer port of rank 0 */
    TS_PASS(ts_tcp_listen(&inner, "127.0.0.1", 0));
    port = ts_socket_port(inner);
    ts_socket_close(inner);
    TS_EXPECT(pipe(seen) == 0);
    pid_t carrier = fork();
    if (carrier == 0) carry(from, port, seen[1]);
    snprintf(text, sizeof text, "%d", port);
    setenv("TESSERA_SOCKET_IFNAME", "lo", 1);
    snprintf(url, sizeof url, "file://%s/meet", test->dir);
    pid_t peer = fork();
    if (peer == 0) {
        sum_once(test, 1, url);
        _exit(test->failures);
    }
    setenv("TESSERA_LISTEN_PORTS", text, 1);
    snprintf(text, sizeof text, "127.0.0.2:%d", ts_socket_port(from));
    setenv("TESSERA_PUBLISH_ADDRESS", text, 1);
    sum_once(test, 0, url);
    waitpid(peer, &status, 0);
    TS_EXPECT_INT(status, 0);
    waitpid(carrier, &status, 0);
    TS_EXPECT_INT(read(seen[0], text, 1), 1); /* it went that way */
}

static ts_status publish(const char *ports, const char *address, ts_endpoint *out, int index)
{
    int fd = -1;
    setenv("TESSERA_LISTEN_PORTS", ports, 1);
    setenv("TESSERA_PUBLISH_ADDRESS", address, 1);
    ts_status status = ts_publish_listen(&fd, out, "127.0.0.1", index);
    ts_socket_close(fd);
    return status;
}

TS_TEST(published_addresses_are_read)
{
    ts_endpoint e;
    TS_PASS(publish("", "", &e, 0));
    TS_EXPECT_STR(e.address, "127.0.0.1");
    TS_PASS(publish("", "10.1.2.3,10.4.5.6", &e, 1));
    TS_EXPECT_STR(e.address, "10.4.5.6");
    TS_PASS(publish("", "fd77::1", &e, 0));
    TS_EXPECT_STR(e.address, "fd77::1");
    TS_PASS(publish("14310-14399", "[fd77::1]:24310", &e, 0));
    TS_EXPECT_STR(e.address, "fd77::1");
    TS_EXPECT(e.port >= 24310 && e.port <= 24399);
    TS_FAIL(publish("", "10.1.2.3:70", &e, 0), TS_EINVAL, "TESSERA_LISTEN_PORTS must say");
    TS_FAIL(publish("", "10.1.2.3:x", &e, 0), TS_EINVAL, "TESSERA_PUBLISH_ADDRESS is '10.1.2.3:x'");
    TS_FAIL(publish("9-3", "", &e, 0), TS_EINVAL, "TESSERA_LISTEN_PORTS is '9-3'");
    TS_FAIL(publish("70000", "", &e, 0), TS_EINVAL, "'70000'");
}

/* ---- meeting --------------------------------------------------------------------------------- */

static ts_status meet(ts_store **store, int rank, int size, const char *host, const char *run,
                      int64_t timeout_ms)
{
    ts_place place = {.rank = rank, .size = size};
    ts_meeting how = {.serve = true, .run = run, .source = "a test", .timeout_ms = timeout_ms};
    snprintf(how.host, sizeof how.host, "%s", host);
    ts_status status = ts_meet(&place, &how);
    *store = place.store;
    return status;
}

static void *say_hello(void *user)
{
    ts_store *store = NULL;
    ts_status status = meet(&store, 1, 2, "127.0.0.1", user, 5000);
    if (status == TS_OK) status = ts_store_set(store, "hello", "", 0);
    ts_store_free(store);
    return status == TS_OK ? user : NULL;
}

/* The first ports that follow from the name of the run are taken by somebody who answers nothing,
 * by a store of strangers, by another run. */
TS_TEST(ports_of_a_run_that_are_taken)
{
    int silent;
    void *done;
    pthread_t peer;
    ts_store *strangers = NULL, *other = NULL, *own = NULL;
    const char *hello = "hello";
    char run[32];
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    snprintf(run, sizeof run, "run-of-test-%d", (int)getpid());
    TS_PASS(ts_tcp_listen(&silent, NULL, ts_meet_port(run, 0)));
    opt.port = ts_meet_port(run, 1);
    opt.is_master = true;
    opt.wait_for_workers = false;
    TS_PASS(ts_tcp_store_new(&strangers, &opt));
    opt.port = ts_meet_port(run, 2);
    TS_PASS(ts_tcp_store_new(&other, &opt));
    TS_PASS(ts_store_set(other, "tessera/run", "another", 7));
    pthread_create(&peer, NULL, say_hello, run);
    usleep(100000);
    TS_PASS(meet(&own, 0, 2, "127.0.0.1", run, 5000));
    TS_EXPECT_INT(ts_tcp_store_port(own), ts_meet_port(run, 3));
    TS_PASS(ts_store_wait(own, &hello, 1, 10000));
    pthread_join(peer, &done);
    TS_EXPECT(done);
    bool exists = true;
    TS_PASS(ts_store_check(other, &hello, 1, &exists));
    TS_EXPECT(!exists);
    ts_store_free(own);
    ts_store_free(other);
    ts_store_free(strangers);
    ts_socket_close(silent);
}

TS_TEST(meeting_says_who_has_not_come)
{
    ts_store *store = NULL;
    char lonely[32];
    snprintf(lonely, sizeof lonely, "lonely%d", (int)getpid());
    TS_FAIL(meet(&store, 0, 3, "", lonely, 200), TS_ETIMEOUT, "2 of 3 ranks of run 'lonely");
    ts_store_free(store);
    TS_FAIL(meet(&store, 1, 3, "", lonely, 200), TS_ETIMEOUT, "rank 0 of run 'lonely");
    TS_FAIL(meet(&store, 1, 3, "127.0.0.1", lonely, 200), TS_ETIMEOUT,
            "' was not found on host '127.0.0.1' (from a test)");
    TS_FAIL(meet(&store, 1, 3, "no-such-host.invalid", lonely, 200), TS_ENETWORK,
            "host name 'no-such-host.invalid' does not resolve");
    TS_FAIL(meet(&store, 1, 3, "", "", 200), TS_EINVAL, "set MASTER_PORT, or TESSERA_RUN_ID");
}

TS_TEST(name_of_the_master_that_does_not_resolve)
{
    clear_environment();
    set_all("RANK=1 WORLD_SIZE=2 MASTER_ADDR=no-such-host.invalid MASTER_PORT=4321 "
            "TESSERA_TIMEOUT=300");
    TS_FAIL(ts_init_process_group(NULL), TS_ENETWORK, "from MASTER_ADDR");
    TS_EXPECT_TEXT(ts_error_last(), "'no-such-host.invalid' does not resolve");
    TS_EXPECT_TEXT(ts_error_last(), "set MASTER_ADDR to an address of that host");
}

TS_TEST(multicast_and_server_kinds_in_urls)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    clear_environment();
    opt.init_method = "tcp://224.1.2.3:4000?rank=1&world_size=2";
    TS_FAIL(ts_init_process_group(&opt), TS_EINVAL, "224.1.2.3, from the init method, is a multi");
    opt.init_method = "tcp://[ff02::1]:4000?rank=1&world_size=2";
    TS_FAIL(ts_init_process_group(&opt), TS_EINVAL, "multicast");
    setenv("USE_LIBUV", "0", 1); /* there is one server, whatever is asked for */
    opt.init_method = "tcp://localhost:4000?rank=0&world_size=1&use_libuv=0";
    TS_PASS(ts_init_process_group(&opt));
    TS_PASS(ts_destroy_process_group(NULL));
}

/* ---- init methods of programs ---------------------------------------------------------------- */

static ts_store *shared;
static int calls;

static ts_status by_hand(ts_store **store, int *rank, int *world_size, const char *url,
                         int64_t timeout_ms, void *user)
{
    (void)user;
    calls++;
    if (strcmp(url, "hand://fails") == 0) return TS_EUSER;
    if (strcmp(url, "hand://nothing") == 0) return TS_OK;
    if (*rank < 0) *rank = 0;
    if (*world_size < 0) *world_size = strcmp(url, "hand://wrong") == 0 ? 0 : 1;
    *store = timeout_ms == 4000 ? ts_store_retain(shared) : NULL;
    return TS_OK;
}

static ts_status init_by(const char *method)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.init_method = method;
    opt.timeout_ms = 4000;
    return ts_init_process_group(&opt);
}

TS_TEST(rendezvous_of_a_program)
{
    clear_environment();
    TS_FAIL(init_by("hand://x"), TS_EINVAL, "no init method 'hand://'");
    TS_FAIL(ts_register_rendezvous_handler("tcp", by_hand, NULL), TS_EINVAL, "'tcp' is taken");
    TS_FAIL(ts_register_rendezvous_handler("", by_hand, NULL), TS_EINVAL, "''");
    TS_FAIL(ts_register_rendezvous_handler("a b", by_hand, NULL), TS_EINVAL, "'a b'");
    TS_FAIL(ts_register_rendezvous_handler("hand", NULL, NULL), TS_EINVAL, "NULL");
    TS_PASS(ts_register_rendezvous_handler("hand", by_hand, NULL));
    TS_FAIL(ts_register_rendezvous_handler("hand", by_hand, NULL), TS_EINVAL, "'hand' is taken");
    TS_FAIL(init_by("foot://"), TS_EINVAL, "hand://");
    TS_PASS(ts_hash_store_new(&shared));
    TS_PASS(init_by("hand://x?color=red"));
    TS_EXPECT_INT(calls, 1);
    TS_EXPECT_INT(ts_world_size(), 1);
    TS_PASS(ts_destroy_process_group(NULL));
    TS_FAIL(init_by("hand://nothing"), TS_EINVAL, "hand:// has given no store");
    TS_FAIL(init_by("hand://wrong"), TS_EINVAL, "world size 0");
    TS_EXPECT(init_by("hand://fails") == TS_EUSER);
    ts_store_free(shared);
}
