/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

TS_TEST(doctor_checks_the_machine, .timeout_s = 30)
{
    cli_job job;
    cli_run(test, &job, "$T doctor --json");
    TS_EXPECT_TEXT(job.out, "\"check\":\"open files\"");
    TS_EXPECT_TEXT(job.out, "\"check\":\"shared memory\"");
    cli_run(test, &job, "$T run -q -n 3 $T doctor");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "0 <-> 2");
    TS_EXPECT_TEXT(job.out, "clocks differ by");
}

static void write_text(const char *path, const char *text)
{
    FILE *to = fopen(path, "we");
    if (!to) return;
    fputs(text, to);
    fclose(to);
}

#define GROUP "\"pg_config\":{\"0\":{\"name\":\"default\",\"desc\":\"d\",\"ranks\":\"[0,1]\"}}"
#define ENTRY(id, name, seq, state)                                                                \
    "{\"record_id\":" #id ",\"pg_id\":0,\"process_group\":[\"default\",\"d\"],"                    \
    "\"collective_seq_id\":" #seq ",\"p2p_seq_id\":0,\"is_p2p\":false,\"profiling_name\":"         \
    "\"gloo:" name "\",\"input_sizes\":[[4]],\"input_dtypes\":[\"Float\"],\"state\":\"" state      \
    "\"}"

/* As PyTorch writes them: without rank, which the name of the file has. */
TS_TEST(doctor_reads_dumps, .timeout_s = 30)
{
    cli_job job;
    char path[200];
    snprintf(path, sizeof path, "%s/trace_0", test->dir);
    write_text(path,
               "{\"version\":\"2.10\"," GROUP ",\"entries\":[" ENTRY(
                   0, "all_reduce", 1, "completed") "," ENTRY(1, "broadcast", 2, "started") "]}");
    snprintf(path, sizeof path, "%s/trace_1", test->dir);
    write_text(path, "{\"version\":\"2.10\"," GROUP
                     ",\"entries\":[" ENTRY(0, "all_reduce", 1, "completed") "]}");
    cli_run(test, &job, "$T doctor --trace trace_0 trace_1");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "in broadcast #2 of 'default'");
    TS_EXPECT_TEXT(job.out, "rank 1 holds up others");
    write_text(path, "{\"version\":\"2.10\"," GROUP
                     ",\"entries\":[" ENTRY(0, "barrier", 1, "completed") "]}");
    cli_run(test, &job, "$T doctor --trace trace_0 trace_1");
    TS_EXPECT_TEXT(job.out, "ranks part at #1 of group 'default': rank 0 calls all_reduce");
    write_text(path, "{\"version\":\"2.10\"," GROUP ",\"entries\":[" ENTRY(
                         0, "all_reduce", 1, "completed\",\"status\":\"TS_ETIMEOUT") "]}");
    cli_run(test, &job, "$T doctor --trace trace_1");
    TS_EXPECT_TEXT(job.out, "failed in all_reduce #1 of 'default'");
    write_text(path, "[nonsense");
    cli_run(test, &job, "$T doctor --trace trace_1");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "not JSON");
}

/* Ranks of a test are a job, too: rank 1 is stopped, rank 0 waits for it. */
TS_TEST(doctor_looks_at_a_live_job, .ranks = 2, .mode = TS_TEST_PROCESSES, .timeout_s = 40)
{
    ts_tensor *t = ts_full(TS_SHAPE(1), (double)getpid(), NULL), *all = ts_zeros(TS_SHAPE(2), NULL);
    TS_PASS(ts_all_gather_into_tensor(test->group, all, t, NULL));
    int peer = (int)((const float *)ts_data(all))[1];
    if (test->rank == 1) {
        raise(SIGSTOP);
        TS_PASS(ts_barrier(test->group, NULL));
        return;
    }
    cli_job job;
    char line[64];
    ts_work *work;
    TS_PASS(ts_barrier(test->group, &work));
    usleep(100000);
    snprintf(line, sizeof line, "$T doctor %d", (int)getppid());
    cli_run(test, &job, line);
    cli_job other, all_of_rank, jobs;
    snprintf(line, sizeof line, "$T doctor %d", peer);
    cli_run(test, &all_of_rank, line);
    cli_start(test, &other, "$T bench coll -n 2 --seconds 0.5 --bytes 4,1K");
    usleep(400000);
    cli_run(test, &jobs, "$T doctor --jobs");
    kill(peer, SIGCONT);
    cli_wait(&other);
    TS_PASS(ts_work_wait(work, 0));
    ts_work_free(work);
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "in barrier #2 of 'default'");
    TS_EXPECT_TEXT(job.out, "rank 1 holds up others: its process is stopped");
    TS_EXPECT_TEXT(job.out, "doctor_test.c:");
    /* One rank leads to all of its job, and two jobs have two tables. */
    TS_EXPECT_TEXT(all_of_rank.out, "rank 1 holds up others: its process is stopped");
    snprintf(line, sizeof line, "job of process %d\nrank ", (int)getppid());
    TS_EXPECT_TEXT(jobs.out, line);
    TS_EXPECT(cli_count_text(jobs.out, "\nrank ") >= 2);
}
