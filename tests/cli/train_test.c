/* SPDX-License-Identifier: Apache-2.0 */
/* tessera train and bench, seen from outside. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli.h"

static cli_job job, other;

/* A tiny model that trains in well under a second. */
#define TINY " --layers 1 --dim 16 --heads 2 --seq 16 --batch 2 --threads 1 --lr 0.01 --warmup 2 "

/* Some text with structure, so that the loss falls. */
static void write_text(ts_test *test, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", test->dir, name);
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 400; i++) fprintf(f, "line %d of the text\n", i);
    if (f) fclose(f);
}

static double number_after(const char *text, const char *key)
{
    const char *hit = text ? strstr(text, key) : NULL;
    return hit ? atof(hit + strlen(key)) : NAN;
}

TS_TEST(train_two_ranks_learn_and_stay_equal, .timeout_s = 60)
{
    write_text(test, "text");
    cli_run(test, &job,
            "$T train gpt --data text" TINY
            "--steps 60 --eval-every 30 --ranks 2 --json --sample li "
            "--sample-length 20 --plot loss.svg --metrics m.jsonl");
    CLI_EXPECT_STATUS(&job, 0);
    double first = number_after(job.out, "\"step\":1,\"loss\":");
    double last = number_after(job.out, "\"final_loss\":");
    TS_EXPECT_NEAR(first, 5.55, 0.3);
    TS_EXPECT(last < first - 1);
    TS_EXPECT_TEXT(job.out, "\"replicas_equal\":true");
    TS_EXPECT_TEXT(job.out, "\"event\":\"heldout\"");
    TS_EXPECT_TEXT(job.out, "\"event\":\"sample\",\"text\":\"li");
    TS_EXPECT_TEXT(job.out, "\"peak_bytes\":{");
    cli_run(test, &job, "sh -c 'grep -c \"event.:.step.*grad_norm\" m.jsonl; tail -1 loss.svg'");
    TS_EXPECT_STR(job.out, "60\n</svg>\n");
}

TS_TEST(train_uses_the_ranks_that_it_finds, .timeout_s = 60)
{
    write_text(test, "text");
    cli_run(test, &job, "$T run -q -n 2 $T train gpt --data text" TINY "--steps 3");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "equal bit for bit on 2 ranks");
    cli_run(test, &job, "$T run -q -n 2 $T train gpt --data text" TINY "--steps 3 --ranks 3");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "--ranks 3, but the launcher started 2");
}

TS_TEST(train_uses_the_ranks_of_srun, .timeout_s = 60)
{
    char line[512];
    write_text(test, "text");
    snprintf(line, sizeof line,
             "sh -c 'for r in 0 1; do env SLURM_PROCID=$r SLURM_NTASKS=2 SLURM_STEP_ID=0 "
             "MASTER_ADDR=127.0.0.1 MASTER_PORT=%d "
             "$T train gpt --data text" TINY "--steps 3 & done; wait'",
             ts_test_port());
    cli_run(test, &job, line);
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "equal bit for bit on 2 ranks");
    cli_run(test, &job,
            "env SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 $T train gpt "
            "--data text" TINY "--steps 3");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "MASTER_ADDR is not set");
}

TS_TEST(train_two_jobs_at_once, .timeout_s = 60)
{
    write_text(test, "text");
    cli_start(test, &job, "$T train gpt --data text" TINY "--steps 20 --ranks 2 --json");
    cli_start(test, &other, "$T train gpt --data text" TINY "--steps 20 --ranks 2 --json");
    cli_wait(&job);
    cli_wait(&other);
    CLI_EXPECT_STATUS(&job, 0);
    CLI_EXPECT_STATUS(&other, 0);
    TS_EXPECT_NEAR(number_after(job.out, "\"final_loss\":"),
                   number_after(other.out, "\"final_loss\":"), 0);
}

TS_TEST(train_refuses_bad_input, .timeout_s = 60)
{
    static const struct {
        const char *line;
        int status;
        const char *text;
    } cases[] = {
        {"$T train gpt", 2, "--data"},
        {"$T train gpt --data", 2, "needs an argument"},
        {"$T train gpt --data text --laers 2", 2, "did you mean --layers?"},
        {"$T train gpt --data text --parallel fsdp", 2, "not offered yet"},
        {"$T train gpt --data text --tp 2", 2, "--tp is not offered yet"},
        {"$T train gpt --data text --dtype bf16", 2, "not offered yet"},
        {"$T train gpt --data text --resume", 2, "give --checkpoint DIR"},
        {"$T train gpt --data text --dim 30 --heads 4", 2, "does not divide"},
        {"$T train gpt --data text --steps none", 2, "'none'"},
        {"$T train gpt --data text --vocab 100", 2, "at least 256"},
        {"$T train gpt --data text --ranks 2 --parallel none", 2, "use ddp"},
        {"$T train gpt --data text --seq 100000", 1, "smaller --seq or --batch"},
        {"$T train gpt --data nothing-there --ranks 2", 1, "nothing-there"},
        {"$T train gpt --data empty", 1, "empty"},
        {"$T train", 2, "which one?"},
        {"$T train gpt --data text --steps 1 --layers 1 --metrics no/such/folder", 1,
         "no/such/folder"},
        {"$T train gpt --data text --layers 1 --steps 1000000 --plot no/such/loss.svg", 1,
         "no/such/loss.svg"},
        {"$T train gpt --data text" TINY "--steps 2 --metrics /dev/full", 1, "/dev/full"},
        {"$T train gpt --data text" TINY "--steps 2 --json >/dev/full", 1, "standard output"},
        {"$T info >/dev/full", 1, "writing the output"},
    };
    write_text(test, "text");
    cli_run(test, &job, "touch empty");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cli_run(test, &job, cases[i].line);
        if (job.status != cases[i].status)
            TS_FAIL_TEST("%s: status %d\n%s", cases[i].line, job.status, job.err);
        TS_EXPECT_TEXT(job.err, cases[i].text);
        TS_EXPECT(job.seconds < 5);
    }
}

TS_TEST(train_missing_data_on_one_rank_ends_all, .timeout_s = 60)
{
    write_text(test, "text-0");
    cli_run(test, &job, "$T run -q -n 2 $T train gpt --data 'text-${local_rank}'" TINY "--steps 3");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "text-1");
    TS_EXPECT(job.seconds < 10);
}

TS_TEST(train_a_rank_killed_in_mid_step_ends_all, .timeout_s = 60)
{
    char mark[64], victim[16] = "";
    write_text(test, "text");
    snprintf(mark, sizeof mark, "CLI_MARK=%d", (int)getpid());
    putenv(mark);
    cli_start(test, &job,
              "$T run -q -n 2 sh -c 'echo $$ >pid-$RANK; exec $T train gpt --data text" TINY
              "--steps 1000000 --json'");
    unsetenv("CLI_MARK");
    for (int i = 0; i < 1000 && !strstr(victim, "\n"); i++) {
        char path[200], line[512] = "";
        snprintf(path, sizeof path, "%s", job.out_path);
        FILE *f = fopen(path, "r"); /* steps are under way */
        if (f && fgets(line, sizeof line, f) && strchr(line, '\n')) {
            snprintf(path, sizeof path, "%s/pid-1", test->dir);
            FILE *pid = fopen(path, "r");
            if (pid && !fgets(victim, sizeof victim, pid)) victim[0] = 0;
            if (pid) fclose(pid);
        }
        if (f) fclose(f);
        usleep(10000);
    }
    TS_EXPECT(atoi(victim) > 0);
    kill(atoi(victim), SIGKILL);
    int64_t killed = ts_now_ns();
    cli_wait(&job);
    TS_EXPECT(ts_now_ns() - killed < 5000000000);
    CLI_EXPECT_STATUS(&job, 128 + SIGKILL);
    TS_EXPECT_TEXT(job.err, "tessera run: rank 1 (pid ");
    TS_EXPECT_INT(cli_wait_marked(mark, 0, 5), 0);
}

TS_TEST(train_world_size_mismatch_is_an_error, .timeout_s = 60)
{
    write_text(test, "text");
    cli_run(test, &job,
            "env TESSERA_STORE_TIMEOUT=4000 $T run -q -n 2 sh -c 'test $RANK = 1 && export "
            "WORLD_SIZE=3; exec $T train gpt --data text" TINY "--steps 3'");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT(job.seconds < 20);
}

TS_TEST(train_a_rank_started_twice_is_an_error, .timeout_s = 60)
{
    write_text(test, "text");
    cli_run(
        test, &job,
        "env TESSERA_STORE_TIMEOUT=4000 $T run -q -n 3 sh -c 'export WORLD_SIZE=2; test $RANK = "
        "2 && export RANK=1; exec $T train gpt --data text" TINY "--steps 3'");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT(job.seconds < 20);
}

TS_TEST(bench_coll_checks_and_measures, .timeout_s = 60)
{
    cli_run(test, &job,
            "$T bench coll --op all --bytes 4,64K --ranks 2 --iterations 20 --seconds 0.01 --json");
    CLI_EXPECT_STATUS(&job, 0);
    static const char *const ops[] = {
        "\"all_reduce\"", "\"reduce\"",    "\"broadcast\"",      "\"all_gather\"",
        "\"gather\"",     "\"scatter\"",   "\"reduce_scatter\"", "\"all_to_all\"",
        "\"barrier\"",    "\"send_recv\"", "\"ping_pong\"",      "\"all_reduce_coalesced\""};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) TS_EXPECT_TEXT(job.out, ops[i]);
    TS_EXPECT_TEXT(job.out, "\"check\":\"ok\"");
    TS_EXPECT(number_after(job.out, "\"us_median\":") > 0);
    cli_run(test, &job,
            "$T bench coll --bytes 1000 --ranks 3 --memory heap --dtype bf16 --async --iterations "
            "5 --seconds 0.01");
    CLI_EXPECT_STATUS(&job, 0);
    cli_run(test, &job,
            "$T bench coll --backend fake --ranks 10000 --op all --bytes 64 --seconds 0.01");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "10000 ranks");
    cli_run(test, &job, "$T bench coll --op al_reduce");
    CLI_EXPECT_STATUS(&job, 2);
    TS_EXPECT_TEXT(job.err, "al_reduce");
}

TS_TEST(bench_coll_between_pretend_hosts, .timeout_s = 60)
{
    cli_run(test, &job,
            "$T bench coll --op all --bytes 4,64K --ranks 4 --hosts 2 --iterations 5 --seconds "
            "0.01 --json");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "\"hosts\":2");
}

TS_TEST(bench_coll_draws_its_times_and_those_of_others, .timeout_s = 60)
{
    char path[300], picture[65536];
    snprintf(path, sizeof path, "%s/other.jsonl", test->dir);
    FILE *f = fopen(path, "w");
    TS_EXPECT(f);
    fprintf(f, "{\"op\": \"all_reduce\", \"bytes\": 4096, \"ranks\": 2, \"hosts\": 1, "
               "\"backend\": \"others\", \"us_median\": 7.5}\n");
    fclose(f);
    cli_run(test, &job,
            "$T bench coll --op all_reduce,barrier,broadcast --bytes 4,4K --seconds 0.01 --svg "
            "times.svg --compare other.jsonl");
    CLI_EXPECT_STATUS(&job, 0);
    snprintf(path, sizeof path, "%s/times.svg", test->dir);
    f = fopen(path, "r");
    TS_EXPECT(f);
    picture[fread(picture, 1, sizeof picture - 1, f)] = 0;
    fclose(f);
    TS_EXPECT_TEXT(picture, ">all_reduce, 2 ranks, f32</text>");
    TS_EXPECT_TEXT(picture, ">broadcast, 2 ranks, f32</text>");
    TS_EXPECT_TEXT(picture, ">streaming limit</text>");
    TS_EXPECT_TEXT(picture, ">others</text>");
    cli_run(test, &job, "$T bench coll --bytes 4 --seconds 0.01 --compare other.jsonl");
    CLI_EXPECT_STATUS(&job, 2);
    cli_run(test, &job, "$T bench coll --bytes 4 --backend nccl");
    CLI_EXPECT_STATUS(&job, 2);
    TS_EXPECT_TEXT(job.err, "nccl");
}

TS_TEST(bench_train_reports_utilisation, .timeout_s = 60)
{
    cli_run(
        test, &job,
        "$T bench train --layers 1 --dim 32 --heads 2 --seq 16 --batch 2 --vocab 256 --threads 1 "
        "--steps 2 --gemm 128 --json");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT(number_after(job.out, "\"utilisation\":") > 0);
    TS_EXPECT(number_after(job.out, "\"flops_per_step\":") > 0);
    TS_EXPECT_TEXT(job.out, "\"bytes_by_category\":{");
    cli_run(test, &job, "$T bench train --model llama");
    CLI_EXPECT_STATUS(&job, 2);
}

TS_TEST(bench_start_measures_whole_jobs, .timeout_s = 60)
{
    cli_run(test, &job, "$T bench start --ranks 2 --repeats 2 --json");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT(number_after(job.out, "\"ms_median\":") > 0);
}

/* Stopped after 5 steps and resumed: the end is that of a run that never stopped, bit for bit. */
TS_TEST(train_resumes_where_it_stopped, .timeout_s = 60)
{
    write_text(test, "text");
    cli_run(test, &job, "$T train gpt --data text" TINY "--steps 10 --checkpoint a --save-every 5");
    CLI_EXPECT_STATUS(&job, 0);
    cli_run(test, &job, "sh -c 'mkdir b && cp a/step-000000005.pt b && ls -A a | wc -l'");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_STR(job.out, "2\n");
    cli_run(test, &job,
            "$T train gpt --data text" TINY "--steps 10 --checkpoint b --resume --json");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.err, "goes on after step 5 of b");
    TS_EXPECT_INT(cli_count_text(job.out, "\"event\":\"step\""), 5);
    cli_run(test, &job, "cmp a/step-000000010.pt b/step-000000010.pt");
    CLI_EXPECT_STATUS(&job, 0);
    cli_run(test, &job,
            "$T train gpt --data text" TINY "--steps 10 --checkpoint b --resume --json");
    CLI_EXPECT_STATUS(&job, 0); /* nothing left to do */
    TS_EXPECT_TEXT(job.out, "\"event\":\"done\"");
}

TS_TEST(train_resumes_on_several_ranks_and_says_what_is_wrong, .timeout_s = 60)
{
    write_text(test, "text");
    const char *line =
        "$T train gpt --data text" TINY "--ranks 2 --steps 4 --checkpoint c --save-every 2";
    char again[512];
    cli_run(test, &job, line);
    CLI_EXPECT_STATUS(&job, 0);
    snprintf(again, sizeof again, "sh -c 'mv c/step-000000004.pt whole.pt; %s --resume'", line);
    cli_run(test, &job, again);
    CLI_EXPECT_STATUS(&job, 0);
    cli_run(test, &job, "cmp c/step-000000004.pt whole.pt");
    CLI_EXPECT_STATUS(&job, 0);
    cli_run(test, &job, "$T train gpt --data text" TINY "--dim 32 --checkpoint c --resume");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "--resume from c/step-000000004.pt: load_state_dict: ");
    cli_run(test, &job, "$T train gpt --data text" TINY "--checkpoint text");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "not a folder");
}
