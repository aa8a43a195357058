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
    TS_EXPECT_TEXT(job.out,
                   "ranks part at #1 of group 'default': rank 0 calls all_reduce of float32 "
                   "(4,), rank 1 barrier");
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
    snprintf(line, sizeof line, "$T doctor --save . %d", (int)getppid());
    cli_run(test, &job, line);
    cli_job again;
    cli_run(test, &again, "$T doctor --trace trace_0 trace_1"); /* as if from two hosts */
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
    TS_EXPECT_TEXT(again.out, "in barrier #2 of 'default'");
    TS_EXPECT_TEXT(again.out, "rank 1 holds up others: its process is stopped");
    /* One rank leads to all of its job, and two jobs have two tables. */
    TS_EXPECT_TEXT(all_of_rank.out, "rank 1 holds up others: its process is stopped");
    snprintf(line, sizeof line, "job of process %d\nrank ", (int)getppid());
    TS_EXPECT_TEXT(jobs.out, line);
    TS_EXPECT(cli_count_text(jobs.out, "\nrank ") >= 2);
}

/* The line of docs/howto/debugging.md makes dumps what PyTorch's analyser reads. */
#define TO_PICKLE                                                                                  \
    "python3 -c 'import json,pickle,sys; pickle.dump(json.load(sys.stdin), sys.stdout.buffer)'"

TS_TEST(doctor_dumps_suit_the_analyser_of_pytorch, .ranks = 2, .mode = TS_TEST_PROCESSES,
        .timeout_s = 120)
{
    char path[200];
    ts_group *pair;
    cli_job job;
    const char *line = "${TESSERA_TEST_PYTHON:-python3} -c 'import importlib.util as u; "
                       "exit(u.find_spec(\"torch\") is None)'"; /* loading it takes long */
    if (test->rank == 0) cli_run(test, &job, line);
    ts_tensor *there = ts_full(TS_SHAPE(1), test->rank == 0 && job.status == 0, NULL), *t;
    TS_PASS(ts_broadcast(NULL, there, 0, NULL));
    if (*(const float *)ts_data(there) == 0)
        ts_test_skip(test, "no PyTorch (see TESSERA_TEST_PYTHON)");
    TS_PASS(ts_new_group(&pair, (int[]){0, 1}, 2, NULL));
    t = ts_ones(TS_SHAPE(3, 5), NULL);
    for (int i = 0; i < 4; i++) TS_PASS(ts_all_reduce(i & 1 ? pair : NULL, t, TS_SUM, NULL));
    if (test->rank == 1) TS_PASS(ts_barrier(pair, &(ts_work *){NULL})); /* rank 0 has not come */
    snprintf(path, sizeof path, "%s/trace_%d", test->dir, test->rank);
    TS_PASS(ts_flight_recorder_dump_file(path, NULL));
    TS_PASS(ts_barrier(NULL, NULL));
    if (test->rank == 0) {
        snprintf(path, sizeof path, "%s/script", test->dir);
        write_text(path, "mkdir p; for r in 0 1; do " TO_PICKLE
                         " < trace_$r > p/trace_$r || exit 1; done\n"
                         "exec ${TESSERA_TEST_PYTHON:-python3} -m "
                         "torch.distributed.flight_recorder.fr_trace -p trace_ p 2>&1\n");
        cli_run(test, &job, "sh script");
        if (strstr(job.out, "No module named")) ts_test_skip(test, "this PyTorch has no analyser");
        CLI_EXPECT_STATUS(&job, 0);
        TS_EXPECT_TEXT(job.out, "collective: native:barrier");
        TS_EXPECT_TEXT(job.out, "missing ranks: {0}");
        TS_PASS(ts_barrier(pair, NULL));
    }
    TS_PASS(ts_barrier(NULL, NULL));
}
