/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks in network namespaces of their own: real links, found without any setting. */
#include <stdlib.h>

#include "../cli/cli.h"
#include "paths.h"

static void run(ts_test *test, cli_job *job, const char *ranks, int count, const char *setup,
                const char *filter)
{
    char line[1024];
    int conforming = 0;
    snprintf(line, sizeof line, "%s \"%s\" \"%s\" " TS_BINARY_DIR "/bin/conformance native %s",
             ts_test_path("tests/conformance/netns.sh"), ranks, setup, filter);
    cli_run(test, job, line);
    if (job->status == 77) ts_test_skip(test, "%s", job->out);
    CLI_EXPECT_STATUS(job, 0);
    for (const char *at = job->out; (at = strstr(at, "conforms")); at++) conforming++;
    TS_EXPECT_INT(conforming, count);
}

static long bytes_sent(const cli_job *job)
{
    const char *at = strstr(job->out, "bytes sent by the first: ");
    return at ? atol(strchr(at, ':') + 1) : -1;
}

/* Messages of 2 MiB from the only rank of one side cross the link. */
TS_TEST(netns_two_hosts, .skip_unless = "ip", .timeout_s = 60)
{
    static cli_job job;
    run(test, &job, "1 1", 2, "true", "");
    TS_EXPECT(bytes_sent(&job) > 2 << 20);
}

TS_TEST(netns_three_hosts, .skip_unless = "ip", .timeout_s = 60)
{
    static cli_job job;
    run(test, &job, "2 1 1", 4, "true", "");
    TS_EXPECT(bytes_sent(&job) > 2 << 20);
}

TS_TEST(netns_slow_link, .skip_unless = "tc", .timeout_s = 60)
{
    static cli_job job;
    run(test, &job, "2 1", 3,
        "tc qdisc add dev eth0 root tbf rate 200mbit burst 64kb latency 100ms", "message");
}

/* Long messages in both directions at once do not need buffers to end. */
TS_TEST(netns_smallest_socket_buffers, .skip_unless = "ip", .timeout_s = 60)
{
    static cli_job job;
    run(test, &job, "1 1", 2,
        "echo 4096 4096 4096 | tee /proc/sys/net/ipv4/tcp_wmem > /proc/sys/net/ipv4/tcp_rmem",
        "message");
}
