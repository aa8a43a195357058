/* SPDX-License-Identifier: Apache-2.0 */
/* tessera run, seen from outside. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"
#include "paths.h"

static cli_job job, other;

TS_TEST(run_sets_the_environment_of_torchrun)
{
    cli_run(test, &job,
            "env -u OMP_NUM_THREADS $T run -q -n 2 --rdzv-id my-job --max-restarts 3 sh -c 'echo "
            "$RANK $LOCAL_RANK $GROUP_RANK $ROLE_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR "
            "$TORCHELASTIC_RUN_ID $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS "
            "$TORCHELASTIC_USE_AGENT_STORE $OMP_NUM_THREADS $TESSERA_RUN_ID; test $MASTER_PORT "
            "-gt 0'");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "0 0 0 0 2 2 127.0.0.1 my-job 0 3 True 1 my-job\n");
    TS_EXPECT_TEXT(job.out, "1 1 0 1 2 2 127.0.0.1 my-job 0 3 True 1 my-job\n");
}

TS_TEST(run_leaves_a_thread_count_alone)
{
    cli_run(test, &job, "env OMP_NUM_THREADS=7 $T run -q -n 2 sh -c 'echo $OMP_NUM_THREADS'");
    TS_EXPECT_STR(job.out, "7\n7\n");
    cli_run(test, &job, "env -u OMP_NUM_THREADS $T run -q -n 1 sh -c 'echo :$OMP_NUM_THREADS'");
    TS_EXPECT_STR(job.out, ":\n");
}

TS_TEST(run_leaves_variables_of_nccl_alone)
{
    cli_run(test, &job,
            "env NCCL_SOCKET_IFNAME==eth9 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL,GRAPH "
            "NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=2 $T run -q -n 1 sh -c 'echo "
            "$NCCL_SOCKET_IFNAME $NCCL_DEBUG $NCCL_DEBUG_SUBSYS $NCCL_SOCKET_NTHREADS "
            "$NCCL_NSOCKS_PERTHREAD'");
    TS_EXPECT_STR(job.out, "=eth9 INFO COLL,GRAPH 4 2\n");
}

TS_TEST(run_two_jobs_at_once_have_ports_of_their_own)
{
    cli_start(test, &job, "$T run -q -n 2 sh -c 'echo $MASTER_PORT; sleep 0.3'");
    cli_start(test, &other, "$T run -q -n 2 sh -c 'echo $MASTER_PORT; sleep 0.3'");
    cli_wait(&job);
    cli_wait(&other);
    CLI_EXPECT_STATUS(&job, 0);
    CLI_EXPECT_STATUS(&other, 0);
    TS_EXPECT(atoi(job.out) > 0 && atoi(other.out) > 0);
    TS_EXPECT(atoi(job.out) != atoi(other.out));
}

TS_TEST(run_names_a_port_that_is_taken)
{
    char line[160], port[16];
    cli_start(test, &job, "$T run -q -n 1 sh -c 'echo $MASTER_PORT >port; sleep 5'");
    for (int i = 0; i < 200; i++) {
        snprintf(line, sizeof line, "%s/port", test->dir);
        FILE *f = fopen(line, "r");
        if (f && fgets(port, sizeof port, f)) {
            fclose(f);
            break;
        }
        if (f) fclose(f);
        usleep(10000);
    }
    snprintf(line, sizeof line, "$T run -q -n 2 --master-port %d true", atoi(port));
    cli_run(test, &other, line);
    kill(job.pid, SIGTERM);
    cli_wait(&job);
    CLI_EXPECT_STATUS(&other, 1);
    TS_EXPECT(other.seconds < 5);
    snprintf(line, sizeof line, "port %d", atoi(port));
    TS_EXPECT_TEXT(other.err, line);
    TS_EXPECT_TEXT(other.err, "address");
    TS_EXPECT_TEXT(other.err, "already in use");
}

/* Four ranks, each with a process of its own below it. */
#define SLEEPERS "$T run -q -n 4 sh -c 'sleep 60 & sleep 61'"
#define STUBBORN "$T run -q -n 4 sh -c 'trap \"\" TERM; sleep 60 & sleep 61'"

static void kill_launcher_of(ts_test *test, const char *line, int signal_number)
{
    char mark[64];
    snprintf(mark, sizeof mark, "CLI_MARK=%d", (int)getpid());
    putenv(mark);
    cli_start(test, &job, line);
    unsetenv("CLI_MARK");
    TS_EXPECT_INT(cli_wait_marked(mark, 14, 10), 14); /* launcher, guard, 4 x (shell, 2 sleeps) */
    kill(job.pid, signal_number);
    cli_wait(&job);
    TS_EXPECT_INT(cli_wait_marked(mark, 0, 5), 0);
    CLI_EXPECT_STATUS(&job, 128 + signal_number);
}

TS_TEST(run_killed_by_sigterm_leaves_no_process) { kill_launcher_of(test, SLEEPERS, SIGTERM); }
TS_TEST(run_killed_by_sigkill_leaves_no_process) { kill_launcher_of(test, SLEEPERS, SIGKILL); }
TS_TEST(run_interrupted_leaves_no_process) { kill_launcher_of(test, SLEEPERS, SIGINT); }
TS_TEST(run_killed_by_sigkill_leaves_no_process_that_ignores_signals)
{
    kill_launcher_of(test, STUBBORN, SIGKILL);
}

TS_TEST(run_reports_the_first_failure_first)
{
    char mark[64];
    snprintf(mark, sizeof mark, "CLI_MARK=%d", (int)getpid());
    putenv(mark);
    cli_run(test, &job,
            "$T run -q -n 4 sh -c 'test $RANK = 2 || exec sleep 60; sleep 0.2; echo the reason "
            ">&2; exit 7'");
    CLI_EXPECT_STATUS(&job, 7);
    TS_EXPECT(job.seconds < 5);
    TS_EXPECT_TEXT(job.err, "tessera run: rank 2 (pid ");
    TS_EXPECT_TEXT(job.err, "exit code 7; its last error line: the reason");
    TS_EXPECT(!strstr(job.err, "rank 0") && !strstr(job.err, "rank 1"));
    TS_EXPECT(!strstr(job.err, "rank 3"));
    unsetenv("CLI_MARK");
    TS_EXPECT_INT(cli_wait_marked(mark, 0, 5), 0);
}

TS_TEST(run_kills_ranks_that_ignore_the_signal)
{
    cli_run(test, &job,
            "$T run -n 2 --shutdown-timeout 0.3 sh -c 'test $RANK = 1 && sleep 0.2 && exit 3; trap "
            "\"\" TERM; sleep 20'");
    CLI_EXPECT_STATUS(&job, 3);
    TS_EXPECT(job.seconds < 5);
    TS_EXPECT_TEXT(job.err, "they are killed");
}

TS_TEST(run_turns_a_signal_into_a_status)
{
    cli_run(test, &job, "$T run -q -n 2 sh -c 'test $RANK = 1 && kill -SEGV $$; sleep 30'");
    CLI_EXPECT_STATUS(&job, 128 + SIGSEGV);
    TS_EXPECT_TEXT(job.err, "rank 1");
    TS_EXPECT_TEXT(job.err, "signal 11 (Segmentation fault)");
}

TS_TEST(run_starts_again_after_a_failure)
{
    cli_run(test, &job,
            "$T run -q -n 2 --max-restarts 2 sh -c 'echo $RANK $TORCHELASTIC_RESTART_COUNT; test "
            "$TORCHELASTIC_RESTART_COUNT = 2 || exit 1'");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "0 2\n");
    TS_EXPECT_TEXT(job.out, "1 2\n");
    cli_run(test, &job, "$T run -q -n 1 --max-restarts 1 sh -c 'echo x; exit 4'");
    CLI_EXPECT_STATUS(&job, 4);
    TS_EXPECT_STR(job.out, "x\nx\n");
}

TS_TEST(run_writes_logs_and_shows_lines_with_a_prefix)
{
    cli_run(
        test, &job,
        "$T run -n 2 --log-dir logs -r 3 -t 0:1 sh -c 'echo out ${local_rank}; printf err >&2'");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_STR(job.out, "[default0]:out 0\n");
    cli_run(test, &job, "sh -c 'cat logs/*/attempt_0/1/stdout.log logs/*/attempt_0/0/stderr.log'");
    TS_EXPECT_STR(job.out, "out 1\nerr");
    cli_run(test, &job, "$T run -n 2 -r 7 true");
    CLI_EXPECT_STATUS(&job, 2);
    TS_EXPECT_TEXT(job.err, "not '7'");
}

TS_TEST(run_takes_an_endpoint_of_the_rendezvous)
{
    cli_run(test, &job,
            "$T run -q -n 1 --rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-conf "
            "timeout=5,is_host=1 sh -c 'echo $MASTER_ADDR; test $MASTER_PORT -gt 0'");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_STR(job.out, "localhost\n");
    cli_run(test, &job, "$T run -q --rdzv-backend etcd-v2 true");
    CLI_EXPECT_STATUS(&job, 2);
    TS_EXPECT_TEXT(job.err, "etcd-v2 is not offered yet");
    cli_run(test, &job, "$T run -q --rdzv-endpoint localhost:x true");
    CLI_EXPECT_STATUS(&job, 2);
    TS_EXPECT_TEXT(job.err, "not 'localhost:x'");
    cli_run(test, &job, "$T run -q --rdzv-conf timeout=5,oops=1 true");
    CLI_EXPECT_STATUS(&job, 2);
    TS_EXPECT_TEXT(job.err, "'oops=1'");
}

TS_TEST(run_shows_an_error_of_all_ranks_once)
{
    int shown = 0;
    cli_run(
        test, &job,
        "$T run -q -n 4 sh -c 'trap \"\" TERM; sleep 0.0$RANK; echo \"[rank$RANK] x.c:1: f(): all "
        "is lost (TS_ENETWORK)\" >&2; echo \"[rank$RANK] a note\" >&2; sleep 0.3; exit 3'");
    CLI_EXPECT_STATUS(&job, 3);
    for (char *at = job.err; (at = strstr(at, "x.c:1: f(): all is lost (TS_ENETWORK)\n")); at++)
        shown++;
    TS_EXPECT_INT(shown, 1);
    TS_EXPECT_TEXT(job.err, "3 other rank(s) reported the same: ");
    TS_EXPECT_TEXT(job.err, "[rank3] a note\n");
}

TS_TEST(run_gives_standard_input_to_rank_0)
{
    cli_run(test, &job, "sh -c 'echo hello | $T run -q -n 3 cat'");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_STR(job.out, "hello\n");
}

TS_TEST(run_starts_64_ranks)
{
    cli_run(test, &job, "sh -c '$T run -q -n 64 sh -c \"echo \\$RANK\" | sort -n | tail -1'");
    TS_EXPECT_STR(job.out, "63\n");
}

TS_TEST(run_refuses_what_it_cannot_do)
{
    static const struct {
        const char *line;
        int status;
        const char *text;
    } cases[] = {
        {"$T run", 2, "which program"},
        {"$T run --nnodes 1:2 true", 2, "not supported yet by this version"},
        {"$T run --nnodes 1:2:3 true", 2, "'1:2:3'"},
        {"$T run -n nine true", 2, "'nine'"},
        {"$T run --nproc-per-nod 2 true", 2, "did you mean --nproc-per-node?"},
        {"$T run --master-port 70000 true", 2, "70000"},
        {"$T run -n 2 ./no-such-program", 127, "cannot execute ./no-such-program"},
        {"$T runn", 2, "did you mean 'run'?"},
        {"$T doctor --job 1", 1, "no rank of job 1 on this machine"},
        {"$T ckpt ls .", 2, "tessera ckpt is not offered yet by this version"},
        {"$T help plan", 2, "tessera plan is not offered yet by this version"},
        {"$T bench ckpt here", 2, "tessera bench ckpt is not offered yet"},
        {"$T bench oops", 2, "tessera bench: there is no 'oops'; which one?"},
        {"$T bench", 2, "tessera bench: which one?"},
        {"$T", 2, "usage: tessera"},
        {"env PET_NNODES=2 $T run true", 2, "--nnodes 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cli_run(test, &job, cases[i].line);
        if (job.status != cases[i].status)
            TS_FAIL_TEST("%s: status %d\n%s", cases[i].line, job.status, job.err);
        TS_EXPECT_TEXT(job.err, cases[i].text);
        TS_EXPECT_STR(job.out, "");
    }
}

TS_TEST(run_with_few_open_files_ends_at_once, .timeout_s = 30)
{
    cli_run(test, &job, "sh -c 'ulimit -n 16; exec $T run -q -n 2 sleep 60'");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "(ulimit -n) is 16; at least 32 are needed");
    /* some ranks can be started, not all: those are ended, wherever they are in their start */
    cli_run(test, &job, "sh -c 'ulimit -n 40; exec $T run -q -n 32 sleep 60'");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "Too many open files");
    TS_EXPECT(job.seconds < 5);
}

TS_TEST(run_warns_of_more_ranks_than_cores)
{
    cli_run(test, &job, "taskset -c 0 $T run -n 2 sh -c 'exit 0'");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.err, "share 1 core(s)");
    cli_run(test, &job, "taskset -c 0 $T run --quiet -n 2 sh -c 'exit 0'");
    TS_EXPECT_STR(job.err, "");
}

TS_TEST(help_is_made_from_the_tables)
{
    cli_run(test, &job, "$T help run");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "--nproc-per-node N");
    cli_run(test, &job, "$T help --man run");
    TS_EXPECT_TEXT(job.out, ".TH TESSERA 1");
    TS_EXPECT_TEXT(job.out, "\\-\\-max\\-restarts");
    const char *families[] = {"$T help bench", "$T bench --help"};
    for (int i = 0; i < 2; i++) {
        cli_run(test, &job, families[i]);
        CLI_EXPECT_STATUS(&job, 0);
        TS_EXPECT_TEXT(job.out, "tessera bench coll");
        TS_EXPECT_STR(job.err, "");
    }
    cli_run(test, &job, "$T info --settings");
    TS_EXPECT_TEXT(job.out, "TESSERA_NUM_THREADS=");
}

/* Each plug-in is either named as loaded or with the packages that bring it. */
TS_TEST(info_says_which_plugins_are_missing)
{
    static const char *const names[] = {"mpi_openmpi", "mpi_mpich", "pmix"};
    char path[512], without[64];
    cli_run(test, &job, "$T info");
    CLI_EXPECT_STATUS(&job, 0);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, TS_BINARY_DIR "/lib/tessera/libtessera_%s.so", names[i]);
        snprintf(without, sizeof without, "without   %s: ", names[i]);
        TS_EXPECT_TEXT(job.out, access(path, R_OK) == 0 ? names[i] : without);
    }
}

TS_TEST(run_ends_a_rank_that_is_stopped, .timeout_s = 30)
{
    cli_run(test, &job,
            "$T run -q -n 2 sh -c 'test $RANK = 0 && { sleep 0.3; exit 7; }; kill -STOP $$'");
    CLI_EXPECT_STATUS(&job, 7);
    TS_EXPECT(job.seconds < 5);
}

/* One secret for all ranks, a new one for every job, and not the one that is given replaced. */
TS_TEST(run_secure_gives_the_job_a_secret)
{
    static const char show[] =
        "env -u TESSERA_SECRET $T run -q --secure -n 2 sh -c 'echo $TESSERA_TLS/$TESSERA_SECRET'";
    cli_run(test, &job, show);
    CLI_EXPECT_STATUS(&job, 0);
    char *line = strchr(job.out, '\n');
    TS_EXPECT(line && line - job.out == 2 + 64 && strncmp(job.out, "1/", 2) == 0);
    TS_EXPECT(strncmp(job.out, line + 1, 66) == 0);
    cli_run(test, &other, show);
    TS_EXPECT(strncmp(job.out, other.out, 66) != 0);
    cli_run(test, &job,
            "env TESSERA_SECRET=0123456789abcdef $T run -q --secure -n 1 sh -c 'echo "
            "$TESSERA_SECRET'");
    TS_EXPECT_TEXT(job.out, "0123456789abcdef");
    cli_run(test, &job,
            "env -u TESSERA_SECRET $T run -q --secure -n 2 $T bench coll --op "
            "all_reduce --bytes 1K --ranks 2 --hosts 2 --json");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "\"check\":\"ok\"");
}
