/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the tests, runs them several at a time, prints what failed and the closing line. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "harness.h"

static ts_test_case *first_case;

void ts_test_register(ts_test_case *test_case)
{
    test_case->next = first_case;
    first_case = test_case;
}

typedef struct options {
    int jobs;
    bool list, verbose, here;
    char **part;
    int parts;
} options;

typedef struct running {
    pid_t pid; /* of the watcher; 0: free */
    ts_job job;
    FILE *output;
    int64_t started_ns;
} running;

typedef struct totals {
    int passed, failed, skipped;
} totals;

void ts_job_title(char *out, size_t size, const ts_job *job)
{
    snprintf(out, size, "%s%s", job->c->name,
             job->c->ranks == 0 ? ""
             : job->threads     ? "/threads"
                                : "/processes");
}

static void print_result(const running *r, const char *word, bool with_output)
{
    char title[256], line[4096];
    ts_job_title(title, sizeof title, &r->job);
    printf("%s %s (%s, %.2f s)\n", word, title, r->job.c->file,
           (double)(ts_now_ns() - r->started_ns) * 1e-9);
    rewind(r->output);
    while (with_output && fgets(line, sizeof line, r->output)) printf("    %s", line);
    fflush(stdout);
}

static void finish(running *r, int status, const options *opt, totals *sum)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : TS_EXIT_FAILED;
    if (code == TS_EXIT_PASSED) {
        sum->passed++;
        if (opt->verbose) print_result(r, "passed", false);
    } else if (code == TS_EXIT_SKIPPED) {
        sum->skipped++;
        if (opt->verbose) print_result(r, "skipped", true);
    } else {
        sum->failed++;
        print_result(r, "FAILED", true);
    }
    fclose(r->output);
    ts_job_close(&r->job);
    r->pid = 0;
}

static void wait_for_one(running *slots, const options *opt, totals *sum)
{
    int status;
    pid_t pid;
    do pid = waitpid(-1, &status, 0);
    while (pid < 0 && errno == EINTR);
    for (int i = 0; i < opt->jobs; i++)
        if (pid > 0 && slots[i].pid == pid) finish(&slots[i], status, opt, sum);
}

static void start(running *r, ts_job job)
{
    r->job = job;
    r->started_ns = ts_now_ns();
    r->output = tmpfile();
    if (!r->output || ts_job_open(&r->job) != TS_OK) {
        fprintf(stderr, "cannot make the folder of %s: %s\n", job.c->name, strerror(errno));
        exit(2);
    }
    fflush(NULL);
    r->pid = fork();
    if (r->pid == 0) {
        dup2(fileno(r->output), 1);
        dup2(fileno(r->output), 2);
        setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
        int code = ts_job_watch(&r->job);
        fflush(NULL);
        _exit(code);
    }
    if (r->pid < 0) {
        fprintf(stderr, "cannot start %s: %s\n", job.c->name, strerror(errno));
        exit(2);
    }
}

static void run_here(ts_job job, totals *sum)
{
    if (job.c->ranks > 0 && !job.threads) return;
    if (ts_job_open(&job) != TS_OK) exit(2);
    int code = job.threads ? ts_job_run_threads(&job) : ts_job_run_rank(&job, 0);
    ts_job_close(&job);
    code ? sum->failed++ : sum->passed++;
}

static void submit(ts_job job, running *slots, const options *opt, totals *sum)
{
    char title[256], full[4096];
    bool wanted = opt->parts == 0;
    ts_job_title(title, sizeof title, &job);
    snprintf(full, sizeof full, "%s:%s", job.c->file, title);
    for (int i = 0; i < opt->parts; i++)
        if (strstr(full, opt->part[i])) wanted = true;
    if (!wanted) return;
    if (opt->list) {
        printf("%s\n", title);
        return;
    }
    if (opt->here) {
        run_here(job, sum);
        return;
    }
    for (;;) {
        for (int i = 0; i < opt->jobs; i++)
            if (slots[i].pid == 0) {
                start(&slots[i], job);
                return;
            }
        wait_for_one(slots, opt, sum);
    }
}

static int by_file_and_name(const void *a, const void *b)
{
    const ts_test_case *x = *(ts_test_case *const *)a, *y = *(ts_test_case *const *)b;
    int order = strcmp(x->file, y->file);
    return order ? order : strcmp(x->name, y->name);
}

/* Paths below the source folder, sorted; equal names are refused. */
static ts_test_case **sorted_cases(int *count)
{
    ts_test_case **cases = NULL;
    *count = 0;
    for (ts_test_case *c = first_case; c; c = c->next) ++*count;
    cases = calloc((size_t)*count + 1, sizeof *cases);
    if (!cases) exit(2);
    int n = 0;
    for (ts_test_case *c = first_case; c; c = c->next) {
        c->file = ts_test_short_path(c->file);
        for (int i = 0; i < n; i++)
            if (strcmp(cases[i]->name, c->name) == 0) {
                fprintf(stderr, "two tests are named %s (%s, %s)\n", c->name, cases[i]->file,
                        c->file);
                exit(2);
            }
        cases[n++] = c;
    }
    qsort(cases, (size_t)n, sizeof *cases, by_file_and_name);
    return cases;
}

static options parse(int argc, char **argv)
{
    options opt = {.jobs = ts_cores()};
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--list") == 0)
            opt.list = true;
        else if (strcmp(argv[i], "-v") == 0)
            opt.verbose = true;
        else if (strcmp(argv[i], "--here") == 0)
            opt.here = true;
        else if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc && atoi(argv[i + 1]) > 0)
            opt.jobs = atoi(argv[++i]);
        else {
            fprintf(stderr, "usage: %s [--list] [--jobs N] [-v] [--here] [PART...]\n", argv[0]);
            exit(2);
        }
    }
    opt.part = argv + i;
    opt.parts = argc - i;
    return opt;
}

static void submit_modes(ts_test_case *c, running *slots, const options *opt, totals *sum)
{
    ts_job job = {.c = c};
    if (strncmp(c->name, "self_", 5) == 0 && !getenv("TESSERA_TEST_SELF")) return;
    if (c->ranks == 0) {
        submit(job, slots, opt, sum);
        return;
    }
    if (c->mode != TS_TEST_PROCESSES) {
        job.threads = true;
        submit(job, slots, opt, sum);
        job.threads = false;
    }
    if (c->mode != TS_TEST_THREADS) submit(job, slots, opt, sum);
}

int main(int argc, char **argv)
{
    int count;
    totals sum = {0};
    options opt = parse(argc, argv);
    ts_test_case **cases = sorted_cases(&count);
    running *slots = calloc((size_t)opt.jobs, sizeof *slots);
    if (!slots) return 2;
    for (int i = 0; i < count; i++) submit_modes(cases[i], slots, &opt, &sum);
    for (int i = 0; i < opt.jobs; i++)
        while (slots[i].pid > 0) wait_for_one(slots, &opt, &sum);
    free(slots);
    free(cases);
    if (opt.list) return 0;
    printf("%d passed, %d failed", sum.passed, sum.failed);
    if (sum.skipped) printf(", %d skipped", sum.skipped);
    printf("\n");
    return sum.failed > 0;
}
