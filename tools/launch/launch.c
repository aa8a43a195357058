/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a job: attempts, the first failure, the end of the others. */
#include "launch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/settings.h"
#include "launch_impl.h"
#include "net/interface.h"
#include "net/secret.h"

void launch_say(const launch *job, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%s: %s\n", job->opt->title, text);
}

static int status_of(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void signal_ranks(const launch *job, int signal_number)
{
    for (int i = 0; i < job->opt->ranks; i++) launch_rank_signal(&job->rank[i], signal_number);
}

static void on_grace_over(uv_timer_t *timer)
{
    launch *job = timer->data;
    if (!job->opt->quiet)
        launch_say(job, "%d rank(s) did not end within %g s; they are killed", job->running,
                   job->opt->grace_s);
    signal_ranks(job, SIGKILL);
}

static void end_ranks(launch *job, int signal_number)
{
    job->stage = LAUNCH_ENDING;
    signal_ranks(job, signal_number);
    uv_timer_start(&job->grace, on_grace_over, (uint64_t)(job->opt->grace_s * 1000), 0);
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle)) uv_close(handle, NULL);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void report_first(launch *job, launch_rank *rank, int wait_status)
{
    char what[96];
    launch_stream_read(&rank->err);
    if (WIFSIGNALED(wait_status))
        snprintf(what, sizeof what, "was ended by signal %d (%s)", WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)));
    else
        snprintf(what, sizeof what, "failed with exit code %d", WEXITSTATUS(wait_status));
    launch_say(job, "rank %d (pid %d) %s%s%s", launch_rank_number(rank), (int)rank->pid, what,
               *rank->err.last ? "; its last error line: " : "", rank->err.last);
}

static void rank_ended(launch_rank *rank, int wait_status)
{
    launch *job = rank->job;
    int status = status_of(wait_status);
    if (status != 0 && job->stage == LAUNCH_RUNNING) {
        report_first(job, rank, wait_status);
        job->exit_status = status;
        end_ranks(job, SIGTERM);
    }
    launch_output_close(rank);
    launch_pmi_close(rank);
    if (job->stage == LAUNCH_ENDING) launch_rank_signal(rank, SIGTERM);
    uv_close((uv_handle_t *)&rank->poll, NULL);
    close(rank->pidfd);
    if (--job->running > 0) return;
    job->stage = LAUNCH_OVER;
    uv_walk(&job->loop, close_handle, NULL);
}

static void on_rank_event(uv_poll_t *poll, int event_status, int events)
{
    launch_rank *rank = poll->data;
    int wait_status = 0;
    (void)event_status, (void)events;
    pid_t pid = waitpid(rank->pid, &wait_status, WNOHANG);
    if (pid == rank->pid) rank_ended(rank, wait_status);
}

static void on_signal(uv_signal_t *handle, int signal_number)
{
    launch *job = handle->data;
    if (job->stop_signal) {
        signal_ranks(job, SIGKILL);
        return;
    }
    job->stop_signal = signal_number;
    job->exit_status = 128 + signal_number;
    launch_say(job, "got signal %d (%s); ending %d rank(s)", signal_number,
               strsignal(signal_number), job->running);
    end_ranks(job, signal_number);
}

/* ---- an attempt ------------------------------------------------------------------------------ */

static int watch_signals(launch *job)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    int error = uv_timer_init(&job->loop, &job->grace);
    job->grace.data = job;
    for (int i = 0; i < 4 && !error; i++) {
        error = uv_signal_init(&job->loop, &job->signals[i]);
        job->signals[i].data = job;
        if (!error) error = uv_signal_start(&job->signals[i], on_signal, numbers[i]);
    }
    return error;
}

static int start_ranks(launch *job)
{
    int error = 0;
    for (int i = 0; i < job->opt->ranks && !error; i++) {
        job->rank[i] = (launch_rank){.job = job, .local = i, .pidfd = -1, .exec_fd = -1};
        job->rank[i].pmi.fd = job->rank[i].pmi.child_fd = -1;
        error = launch_rank_start(&job->rank[i]);
    }
    for (int i = 0; i < job->opt->ranks; i++) {
        launch_rank *rank = &job->rank[i];
        if (rank->exec_fd >= 0 && !error) error = launch_rank_started(rank);
        if (error) continue;
        error = uv_poll_init(&job->loop, &rank->poll, rank->pidfd);
        rank->poll.data = rank;
        if (!error) error = uv_poll_start(&rank->poll, UV_READABLE, on_rank_event);
        if (!error) error = launch_output_watch(rank);
        if (!error) error = launch_pmi_watch(rank);
        job->running++;
    }
    return error;
}

/* After a failed start: nothing was running long enough to be asked.  A rank that has no group of
 * its own yet is not reached through its process group. */
static void kill_ranks(launch *job)
{
    signal_ranks(job, SIGKILL);
    for (int i = 0; i < job->opt->ranks; i++) {
        if (job->rank[i].pid <= 0) continue;
        kill(job->rank[i].pid, SIGKILL);
        waitpid(job->rank[i].pid, NULL, 0);
    }
    uv_walk(&job->loop, close_handle, NULL);
}

static ts_status open_store(launch *job)
{
    job->store = NULL;
    job->port = job->opt->master_port;
    if (job->opt->nodes > 1) return TS_OK; /* rank 0 does */
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.host = job->opt->master_addr ? job->opt->master_addr : ts_loopback();
    opt.port = job->opt->master_port;
    opt.is_master = true;
    opt.wait_for_workers = false;
    opt.timeout_ms = 5000;
    ts_status status = ts_tcp_store_new(&job->store, &opt);
    if (status == TS_OK) job->port = ts_tcp_store_port(job->store);
    return status;
}

static int run_attempt(launch *job)
{
    if (launch_openmpi_begin(job) != 0) {
        job->broken = true;
        return TS_LAUNCH_FAILED;
    }
    if (open_store(job) != TS_OK) {
        launch_say(job, "cannot serve the store: %s", ts_error_last());
        job->broken = true;
        return TS_LAUNCH_FAILED;
    }
    job->running = 0;
    job->stage = LAUNCH_RUNNING;
    job->exit_status = 0;
    memset(job->rank, 0, (size_t)job->opt->ranks * sizeof *job->rank);
    int error = uv_loop_init(&job->loop);
    if (error) {
        launch_say(job, "cannot make an event loop: %s", uv_strerror(error));
        ts_store_free(job->store);
        job->broken = true;
        return TS_LAUNCH_FAILED;
    }
    error = watch_signals(job);
    if (error) launch_say(job, "cannot watch signals: %s", uv_strerror(error));
    if (!error) error = start_ranks(job);
    if (error) {
        kill_ranks(job);
        job->broken = true;
        job->exit_status = error == ENOENT ? 127 : error == EACCES ? 126 : TS_LAUNCH_FAILED;
    }
    uv_run(&job->loop, UV_RUN_DEFAULT);
    uv_loop_close(&job->loop);
    for (int i = 0; i < job->opt->ranks; i++) {
        launch_rank_signal(&job->rank[i], SIGKILL); /* what the rank left in its group */
        if (job->rank[i].pid > 0) launch_guard_remove(job, job->rank[i].pid);
    }
    launch_fold_tell(job);
    launch_pmi_forget(job);
    launch_openmpi_end(job);
    ts_store_free(job->store);
    return job->exit_status;
}

/* ---- the job --------------------------------------------------------------------------------- */

static void choose_run_id(launch *job)
{
    if (job->opt->run_id && *job->opt->run_id)
        snprintf(job->run_id, sizeof job->run_id, "%s", job->opt->run_id);
    else if (job->opt->nodes > 1) /* the same on all hosts */
        snprintf(job->run_id, sizeof job->run_id, "none");
    else
        snprintf(job->run_id, sizeof job->run_id, "%x-%llx", (unsigned)getpid(),
                 (unsigned long long)ts_now_ns() & 0xffffffffffULL);
}

/* The environment of this process, which serves the store, and so of the ranks. */
static void make_secret(const launch *job)
{
    uint8_t number[TS_NONCE_BYTES];
    char text[2 * TS_NONCE_BYTES + 1];
    const char *given = getenv("TESSERA_SECRET"), *file = getenv("TESSERA_SECRET_FILE");
    if (!job->opt->secure) return;
    setenv("TESSERA_TLS", "1", 0);
    if ((given && *given) || (file && *file)) return;
    ts_nonce(number);
    for (int i = 0; i < TS_NONCE_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", number[i]);
    setenv("TESSERA_SECRET", text, 1);
}

static void look_at_cores(launch *job)
{
    if (sched_getaffinity(0, sizeof job->cores, &job->cores) != 0) CPU_ZERO(&job->cores);
    job->num_cores = CPU_COUNT(&job->cores);
    if (job->opt->quiet) return;
    const char *threads = getenv("TESSERA_NUM_THREADS");
    if (!threads) threads = getenv("OMP_NUM_THREADS");
    int each = threads && atoi(threads) > 0 ? atoi(threads) : 1;
    if (job->opt->ranks * each > job->num_cores)
        launch_say(job,
                   "%d rank(s) with %d thread(s) each share %d core(s); expect them to be slow",
                   job->opt->ranks, each, job->num_cores);
}

/* Below this, parts of the event loop and of the store fail in ways that say less. */
static int check_descriptors(const launch *job)
{
    struct rlimit limit;
    const rlim_t least = 32;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= least) return 0;
    launch_say(job, "the limit on open files (ulimit -n) is %d; at least %d are needed",
               (int)limit.rlim_cur, (int)least);
    return EMFILE;
}

static int run_attempts(launch *job)
{
    for (;; job->attempt++) {
        int status = run_attempt(job);
        if (status == 0 || job->broken || job->stop_signal ||
            job->attempt >= job->opt->max_restarts)
            return status;
        launch_say(job, "starting all ranks again (restart %d of %d)", job->attempt + 1,
                   job->opt->max_restarts);
    }
}

int ts_launch_run(const ts_launch_options *opt)
{
    launch job = {.opt = opt, .guard_fd = -1};
    if (launch_output_check(opt) != 0) return TS_LAUNCH_USAGE;
    if (check_descriptors(&job) != 0) return TS_LAUNCH_FAILED;
    if (launch_openmpi_load(&job) != 0) return TS_LAUNCH_FAILED;
    choose_run_id(&job);
    make_secret(&job);
    look_at_cores(&job);
    signal(SIGPIPE, SIG_IGN);
    int error = launch_guard_start(&job);
    if (error) {
        launch_say(&job, "cannot start the guard process: %s", strerror(error));
        launch_openmpi_unload(&job);
        launch_openmpi_clear(&job);
        return TS_LAUNCH_FAILED;
    }
    int status = TS_LAUNCH_FAILED;
    job.rank = ts_calloc((size_t)opt->ranks, sizeof *job.rank);
    if (!job.rank)
        launch_say(&job, "out of memory");
    else if (launch_logs_open(&job) == 0)
        status = run_attempts(&job);
    free(job.rank);
    launch_openmpi_unload(&job);
    launch_guard_end(&job);
    return status;
}

/* ---- this program as its own ranks ----------------------------------------------------------- */

static char **own_argv;

void ts_launch_remember(char **argv) { own_argv = argv; }

bool ts_launched(void)
{
    /* A Slurm batch script has a SLURM_PROCID too, but no step. */
    static const char *const marks[][2] = {{"RANK", "WORLD_SIZE"},
                                           {"SLURM_PROCID", "SLURM_STEP_ID"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (getenv(marks[i][0]) && getenv(marks[i][1])) return true;
    return false;
}

int ts_launch_self(const char *title, int ranks, const char *mpi)
{
    char path[4096], *first = own_argv[0];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        own_argv[0] = path;
    }
    setenv(TS_NAMES_CHECKED, "1", 1);
    ts_launch_options opt = {
        .title = title, .ranks = ranks, .grace_s = 10, .mpi = mpi, .argv = own_argv};
    int status = ts_launch_run(&opt);
    own_argv[0] = first;
    return status;
}
