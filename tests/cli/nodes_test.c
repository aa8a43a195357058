/* SPDX-License-Identifier: Apache-2.0 */
/* tessera run on several hosts: launchers that know nothing of each other, on this one. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

#define SUM "$T bench coll --op all_reduce --bytes 4 --json"

/* Goes on until all have come. */
#define LONG "$T bench coll --op all_reduce --bytes 16M --json"

static cli_job job, other, third;

static void start(ts_test *test, cli_job *j, int node, const char *options, const char *program)
{
    char line[512];
    snprintf(line, sizeof line, "$T run -q --nnodes 2 --node-rank %d -n 2 %s %s", node, options,
             program);
    cli_start(test, j, line);
}

static const char *at_port(char out[96], const char *format)
{
    snprintf(out, 96, format, ts_test_port());
    return out;
}

TS_TEST(run_on_two_nodes_makes_one_group)
{
    char options[96];
    at_port(options, "--master-addr 127.0.0.1 --master-port %d");
    start(test, &job, 0, options, SUM);
    start(test, &other, 1, options, SUM);
    cli_wait(&job);
    cli_wait(&other);
    CLI_EXPECT_STATUS(&job, 0);
    CLI_EXPECT_STATUS(&other, 0);
    TS_EXPECT_TEXT(job.out, "\"ranks\":4");
    TS_EXPECT_TEXT(job.out, "\"check\":\"ok\"");
}

TS_TEST(run_on_two_nodes_sets_the_environment_of_torchrun)
{
    cli_run(test, &job,
            "$T run -q --nnodes 2 --node-rank 1 -n 2 --rdzv-backend static --rdzv-endpoint "
            "host0:777 sh -c 'echo $RANK $LOCAL_RANK $GROUP_RANK $ROLE_RANK $WORLD_SIZE "
            "$LOCAL_WORLD_SIZE $GROUP_WORLD_SIZE $ROLE_WORLD_SIZE $MASTER_ADDR $MASTER_PORT "
            "$TORCHELASTIC_RUN_ID $TORCHELASTIC_USE_AGENT_STORE'");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "2 0 1 2 4 2 2 4 host0 777 none False\n");
    TS_EXPECT_TEXT(job.out, "3 1 1 3 4 2 2 4 host0 777 none False\n");
    cli_run(test, &job,
            "$T run -q --nnodes 2 --master-addr a --rdzv-id x sh -c 'echo $MASTER_PORT "
            "$TESSERA_RUN_ID'");
    TS_EXPECT_STR(job.out, "29500 x\n");
}

TS_TEST(run_without_the_second_node_names_its_ranks)
{
    char options[96];
    setenv("TESSERA_TIMEOUT", "700", 1);
    start(test, &job, 0, at_port(options, "--rdzv-endpoint 127.0.0.1:%d"), SUM);
    cli_wait(&job);
    unsetenv("TESSERA_TIMEOUT");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "2 of 4 ranks have not joined within 700 ms: 2, 3");
    TS_EXPECT(job.seconds < 5);
}

TS_TEST(run_with_a_node_rank_twice_says_so)
{
    char options[96];
    setenv("TESSERA_TIMEOUT", "8000", 1);
    at_port(options, "--master-addr 127.0.0.1 --master-port %d");
    start(test, &job, 0, options, LONG);
    start(test, &other, 1, options, LONG);
    start(test, &third, 1, options, LONG);
    cli_wait(&job);
    cli_wait(&other);
    cli_wait(&third);
    unsetenv("TESSERA_TIMEOUT");
    TS_EXPECT(other.status != 0 || third.status != 0);
    TS_EXPECT_TEXT(other.status ? other.err : third.err, "was started twice");
}

/* The port of host 0 is taken, by another host 0 for instance. */
TS_TEST(run_on_two_nodes_names_a_port_that_is_taken)
{
    char options[96];
    at_port(options, "--master-addr 127.0.0.1 --master-port %d");
    setenv("TESSERA_TIMEOUT", "3000", 1);
    start(test, &job, 0, options, SUM);
    start(test, &other, 0, options, SUM);
    cli_wait(&job);
    cli_wait(&other);
    unsetenv("TESSERA_TIMEOUT");
    TS_EXPECT(job.status != 0 && other.status != 0);
    TS_EXPECT(strstr(job.err, "already in use") || strstr(other.err, "already in use"));
}

TS_TEST(run_on_two_nodes_refuses_what_it_cannot_do)
{
    static const struct {
        const char *options, *text;
    } cases[] = {
        {"--nnodes 2", "needs --master-addr"},
        {"--nnodes 2 --node-rank 2 --master-addr a", "--node-rank 2 is not in 0 .. 1"},
        {"--nnodes 1:2 --master-addr a", "not supported yet by this version"},
        {"--nnodes 2 --rdzv-backend c10d --master-addr a", "not supported yet by this version"},
        {"--nnodes 2 --max-restarts 1 --master-addr a", "--max-restarts"},
        {"--nnodes 2 --secure --master-addr a", "TESSERA_SECRET"},
        {"--nnodes 5000 --master-addr a", "at most 4096"},
    };
    char line[160];
    ts_test_in_the_clear();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line, "$T run %s true", cases[i].options);
        cli_run(test, &job, line);
        CLI_EXPECT_STATUS(&job, 2);
        TS_EXPECT_TEXT(job.err, cases[i].text);
    }
}

/* The other launcher's ranks learn it through the group; each launcher has its own status. */
TS_TEST(run_on_two_nodes_ends_when_a_rank_is_killed)
{
    char options[96];
    at_port(options, "--master-addr 127.0.0.1 --master-port %d");
    start(test, &job, 0, options, LONG);
    start(test, &other, 1, options,
          "sh -c '" LONG " & p=$!; test $RANK = 3 && { sleep 0.5; kill -9 $p; }; wait $p'");
    cli_wait(&job);
    cli_wait(&other);
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "rank 3 (pid");
    CLI_EXPECT_STATUS(&other, 137);
    TS_EXPECT_TEXT(other.err, "tessera run: rank 3");
}

/* ---- two hosts ------------------------------------------------------------------------------- */

#define HOSTS_UP                                                                                   \
    "sh -c 'n=nd%d; ip netns add $n-0 && ip netns add $n-1 && ip -n $n-0 link add e0 type veth "   \
    "peer name e0 netns $n-1 && for h in 0 1; do ip -n $n-$h addr add 10.78.0.1$h/24 dev e0 && "   \
    "ip -n $n-$h link set e0 up && ip -n $n-$h link set lo up || exit 1; done'"

static void run_on_host(ts_test *test, cli_job *j, int id, int host)
{
    char line[400];
    snprintf(line, sizeof line,
             "env TESSERA_HOST_ID=host%d ip netns exec nd%d-%d $T run -q --nnodes 2 --node-rank %d "
             "-n 2 --master-addr 10.78.0.10 --master-port 29500 " SUM,
             host, id, host, host);
    cli_start(test, j, line);
}

TS_TEST(run_on_two_hosts_makes_one_group)
{
    char line[600];
    int id = (int)getpid();
    snprintf(line, sizeof line, HOSTS_UP, id);
    cli_run(test, &third, line);
    bool ready = third.status == 0;
    if (ready) {
        run_on_host(test, &job, id, 0);
        run_on_host(test, &other, id, 1);
        cli_wait(&job);
        cli_wait(&other);
    }
    snprintf(line, sizeof line, "sh -c 'ip netns del nd%d-0; ip netns del nd%d-1'", id, id);
    cli_run(test, &third, line);
    if (!ready) ts_test_skip(test, "network namespaces cannot be made here (root and ip)");
    CLI_EXPECT_STATUS(&job, 0);
    CLI_EXPECT_STATUS(&other, 0);
    TS_EXPECT_TEXT(job.out, "\"ranks\":4");
    TS_EXPECT_TEXT(job.out, "\"check\":\"ok\"");
}
