/* SPDX-License-Identifier: Apache-2.0 */
/* tessera doctor: a live job, dumps of one that failed, or the machines before one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "doctor.h"
#include "launch/launch.h"

const ts_command ts_command_doctor;

typedef struct doctor_values {
    const char *job, *rendezvous, *save;
    ts_text_list trace;
    int64_t ranks;
    bool json, jobs;
} doctor_values;

#define AT(field) offsetof(doctor_values, field)
static const ts_opt doctor_options[] = {
    {"job", 'j', TS_OPT_TEXT, AT(job), "ID", NULL,
     "Job to look at: its run ID, or the process of its launcher or of a rank.", 0, 0, NULL},
    {"rendezvous", 0, TS_OPT_TEXT, AT(rendezvous), "HOST:PORT", NULL,
     "The same, by the address of the job's store (MASTER_ADDR:MASTER_PORT).", 0, 0, NULL},
    {"jobs", 0, TS_OPT_FLAG, AT(jobs), NULL, NULL, "All ranks of all jobs of this machine.", 0, 0,
     NULL},
    {"save", 0, TS_OPT_TEXT, AT(save), "DIR", NULL,
     "Also write what the job's ranks here have recorded to DIR/trace_RANK, for --trace.", 0, 0,
     NULL},
    {"trace", 't', TS_OPT_LIST, AT(trace), "FILE...", NULL,
     "Dumps of flight recorders, one per rank, instead of a live job.", 0, 0, NULL},
    {"ranks", 'n', TS_OPT_INT, AT(ranks), "N", "0",
     "Before a job: start N ranks here which try all pairs.", 0, 4096, NULL},
    {"json", 0, TS_OPT_FLAG, AT(json), NULL, NULL, "One JSON object per line.", 0, 0, NULL},
    {NULL, 0, TS_OPT_FLAG, 0, NULL, NULL, NULL, 0, 0, NULL}};

/* ---- dumps ----------------------------------------------------------------------------------- */

static char *read_file(const char *path, size_t *size)
{
    char *text = NULL, block[65536];
    FILE *from = fopen(path, "re"), *to = open_memstream(&text, size);
    for (size_t got; from && to && (got = fread(block, 1, sizeof block, from)) > 0;)
        fwrite(block, 1, got, to);
    if (to) fclose(to);
    if (from) {
        fclose(from);
        return text;
    }
    free(text);
    return NULL;
}

/* "/tmp/trace_12" is of rank 12. */
static int rank_of_name(const char *path)
{
    const char *end = path + strlen(path), *at = end;
    while (at > path && at[-1] >= '0' && at[-1] <= '9') at--;
    return at < end ? atoi(at) : -1;
}

static bool load(trace *out, const char *path)
{
    char why[160];
    size_t size = 0;
    char *text = read_file(path, &size);
    if (!text) {
        fprintf(stderr, "tessera doctor: %s: %s\n", path, strerror(errno));
        return false;
    }
    bool good = trace_parse(out, text, size, why, sizeof why);
    free(text);
    if (!good) fprintf(stderr, "tessera doctor: %s: %s\n", path, why);
    if (good && out->rank < 0) out->rank = rank_of_name(path);
    return good;
}

static void free_all(trace *traces, int n)
{
    for (int i = 0; i < n; i++) trace_free(&traces[i]);
    free(traces);
}

static int show_traces(const doctor_values *v, int argc, char **argv)
{
    int n = 0, files = v->trace.count + argc;
    trace *traces = calloc((size_t)files, sizeof *traces);
    if (!traces) return TS_EXIT_FAILURE;
    for (int i = 0; i < files; i++) {
        const char *path = i < v->trace.count ? v->trace.item[i] : argv[i - v->trace.count];
        n += load(&traces[n], path);
    }
    if (n > 0) report_ranks(traces, n, v->json);
    free_all(traces, n);
    return n == files ? TS_EXIT_OK : TS_EXIT_FAILURE;
}

/* ---- live ------------------------------------------------------------------------------------ */

/* Jobs have nothing to do with each other, so each gets a table of its own. */
static void report_jobs(const trace *traces, int n, bool json)
{
    for (int i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && strcmp(traces[next].job, traces[i].job) == 0; next++)
            ;
        if (next - i < n) report_title(traces[i].job, i > 0, json);
        report_ranks(&traces[i], next - i, json);
    }
}

/* The dump, with the state of the process as its first member. */
static bool save_one(const trace *t, const char *folder)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/trace_%d", folder, t->rank) >= (int)sizeof path)
        return errno = ENAMETOOLONG, false;
    FILE *to = fopen(path, "we");
    bool good = to && fprintf(to, "{\"process_state\":%d,%s", t->process, t->json + 1) > 0;
    if (to && fclose(to) != 0) good = false;
    return good;
}

static bool save(const trace *traces, int n, const char *folder)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(traces[i].job, traces[0].job) != 0) {
            fprintf(stderr, "tessera doctor: --save takes one job; name it\n");
            return false;
        }
        if (save_one(&traces[i], folder)) continue;
        fprintf(stderr, "tessera doctor: %s/trace_%d: %s\n", folder, traces[i].rank,
                strerror(errno));
        return false;
    }
    return true;
}

static int show_job(const char *job, const char *folder, bool json)
{
    bool good = true;
    trace *traces;
    int n = live_find(&traces, job);
    if (n == 0)
        fprintf(stderr,
                "tessera doctor: no rank of %s%s on this machine (ranks of other users are not "
                "seen; a rank shows up when it has joined its group)\n",
                job ? "job " : "any job", job ? job : "");
    else
        report_jobs(traces, n, json);
    if (n && folder) good = save(traces, n, folder);
    free_all(traces, n);
    return n && good ? TS_EXIT_OK : TS_EXIT_FAILURE;
}

static int doctor_run(void *values, int argc, char **argv)
{
    const doctor_values *v = values;
    if (v->trace.count > 0) return show_traces(v, argc, argv);
    if (argc > 1)
        return ts_usage_error(&ts_command_doctor, "one JOB, behind all options; not '%s' too",
                              argv[1]);
    const char *job = v->job ? v->job : v->rendezvous ? v->rendezvous : argc ? argv[0] : NULL;
    if (job || v->jobs) return show_job(job, v->save, v->json);
    if (ts_launched()) return check_pairs(v->json) ? TS_EXIT_FAILURE : TS_EXIT_OK;
    int bad = check_machine(v->json);
    fflush(stdout);
    int status = v->ranks > 1 ? ts_launch_self("tessera doctor", (int)v->ranks, NULL) : TS_EXIT_OK;
    return bad ? TS_EXIT_FAILURE : status;
}

const ts_command ts_command_doctor = {
    .name = "doctor",
    .summary = "Find out what a job waits for, or whether machines are ready for one.",
    .operands = "[JOB]",
    .about =
        "With a job: a table of what each rank on this machine is in, since when and at which line "
        "of the program, for whom it waits, which rank holds up the others, and where ranks called "
        "different things. It reads the ranks' flight recorders through /proc, so ranks may hang "
        "or be stopped. For a job on several hosts: --save DIR on each of them, in a "
        "folder that they share, then --trace DIR/* anywhere.\n\n"
        "With --trace: the same from dumps of all ranks (TESSERA_DUMP_FILE), also of PyTorch's in "
        "JSON.\n\n"
        "With neither: checks this machine; with --ranks N, or started by tessera run, mpirun or "
        "srun, ranks try all pairs and compare their clocks.",
    .options = doctor_options,
    .values_size = sizeof(doctor_values),
    .run = doctor_run,
};
