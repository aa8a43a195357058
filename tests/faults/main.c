/* SPDX-License-Identifier: Apache-2.0 */
/* The campaign: many runs, several at a time. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "faults.h"

enum { MOST_JOBS = 64 };

typedef struct options {
    long runs, jobs;
    double seconds;
    uint64_t seed;
    bool verbose, network, one_host;
} options;

typedef struct job {
    pid_t pid; /* 0: free */
    plan plan;
    FILE *output;
    int64_t began_ns;
} job;

typedef struct totals {
    int runs, failed, of_fault[NUM_FAULTS];
} totals;

static void usage(void)
{
    fprintf(stderr, "usage: fault-campaign [--runs N] [--seconds S] [--jobs J] [--first SEED] "
                    "[--seed SEED] [--one-host] [-v]\n"
                    "  --seed repeats one run, which its report names\n");
    exit(2);
}

static options parse(int argc, char **argv)
{
    options o = {.runs = 500, .jobs = 4, .seconds = 1e9, .seed = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) {
            o.verbose = true;
            continue;
        }
        if (strcmp(argv[i], "--one-host") == 0) {
            o.one_host = true;
            continue;
        }
        if (i + 1 == argc) usage();
        const char *name = argv[i++], *value = argv[i];
        if (strcmp(name, "--runs") == 0)
            o.runs = atol(value);
        else if (strcmp(name, "--jobs") == 0)
            o.jobs = atol(value);
        else if (strcmp(name, "--seconds") == 0)
            o.seconds = atof(value);
        else if (strcmp(name, "--first") == 0)
            o.seed = strtoull(value, NULL, 10);
        else if (strcmp(name, "--seed") == 0)
            o.seed = strtoull(value, NULL, 10), o.runs = 1, o.verbose = true;
        else
            usage();
    }
    if (o.jobs < 1 || o.jobs > MOST_JOBS || o.runs < 1) usage();
    return o;
}

static void begin(job *j, uint64_t seed, const options *o)
{
    pid_t parent = getpid();
    j->plan = plan_of(seed, o->network, o->one_host ? 1 : MOST_HOSTS);
    j->output = tmpfile();
    j->began_ns = ts_now_ns();
    if (!j->output) exit(2);
    fflush(NULL);
    j->pid = fork();
    if (j->pid < 0) exit(2);
    if (j->pid > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(2);
    dup2(fileno(j->output), 1);
    dup2(fileno(j->output), 2);
    int code = supervise(&j->plan);
    fflush(NULL);
    _exit(code);
}

static void finish(job *j, int status, const options *o, totals *sum)
{
    bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    char line[4096];
    sum->runs++;
    sum->failed += failed;
    sum->of_fault[j->plan.fault]++;
    if (failed || o->verbose) {
        printf("%s --seed %llu (%.1f s): ", failed ? "FAILED" : "ok",
               (unsigned long long)j->plan.seed, (double)(ts_now_ns() - j->began_ns) * 1e-9);
        plan_print(&j->plan);
        printf("\n");
        rewind(j->output);
        while (fgets(line, sizeof line, j->output)) fputs(line, stdout);
        fflush(stdout);
    }
    fclose(j->output);
    j->pid = 0;
}

static void wait_for_one(job *jobs, const options *o, totals *sum)
{
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    for (int i = 0; i < o->jobs; i++)
        if (pid > 0 && jobs[i].pid == pid) finish(&jobs[i], status, o, sum);
}

static job *free_job(job *jobs, const options *o, totals *sum)
{
    for (;;) {
        for (int i = 0; i < o->jobs; i++)
            if (!jobs[i].pid) return &jobs[i];
        wait_for_one(jobs, o, sum);
    }
}

int main(int argc, char **argv)
{
    static job jobs[MOST_JOBS];
    totals sum = {0};
    options o = parse(argc, argv);
    int64_t until = ts_now_ns() + (int64_t)(o.seconds < 1e6 ? o.seconds * 1e9 : 1e15);
    o.network = !o.one_host && lab_available();
    if (!o.network && !o.one_host) printf("no network namespaces here: no faults of the network\n");
    for (long i = 0; i < o.runs; i++) {
        job *j = free_job(jobs, &o, &sum);
        if (ts_now_ns() > until) break;
        begin(j, o.seed + (uint64_t)i, &o);
    }
    for (int i = 0; i < o.jobs; i++)
        while (jobs[i].pid) wait_for_one(jobs, &o, &sum);
    printf("%d runs, %d failed:", sum.runs, sum.failed);
    for (int i = 0; i < NUM_FAULTS; i++) printf(" %d %s", sum.of_fault[i], fault_name((fault)i));
    printf("\n");
    return sum.failed > 0;
}
