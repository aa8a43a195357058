/* SPDX-License-Identifier: Apache-2.0 */
/* A test from the inside: gives each rank its store and group, and runs the body. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/context.h"
#include "harness.h"

static void set_state(ts_test *test, ts_seat_state state)
{
    if (test->seat && test->seat->state != TS_SEAT_FAILED) test->seat->state = state;
}

static ts_test make_test(ts_job *job, int rank, ts_store *store)
{
    return (ts_test){.name = job->c->name,
                     .rank = rank,
                     .size = job->ranks,
                     .threads = job->threads,
                     .dir = job->dir,
                     .store = store,
                     .seat = &job->seat[rank]};
}

/* Runs the body between joining and leaving the group. */
static int run_body(ts_job *job, ts_test *test, ts_status joined)
{
    if (joined != TS_OK) {
        ts_test_fail(test, job->c->file, 0, "joining the group: %s", ts_error_last());
        return TS_EXIT_FAILED;
    }
    set_state(test, TS_SEAT_RUNNING);
    job->c->run(test);
    set_state(test, TS_SEAT_LEAVING);
    return test->failures ? TS_EXIT_FAILED : TS_EXIT_PASSED;
}

static int host_of(const ts_job *job, int rank)
{
    int host = 0;
    const char *split = job->c->split;
    if (!split) return rank * job->c->hosts / job->ranks;
    for (; *split; host++) {
        char *end;
        rank -= (int)strtol(split, &end, 10);
        if (rank < 0) break;
        split = *end ? end + 1 : end;
    }
    return host;
}

/* host lives as long as the rank. */
static void set_host(const ts_job *job, int rank, char host[32])
{
    if (job->c->hosts < 2) return;
    snprintf(host, 32, "test-host-%d", host_of(job, rank));
    ts_thread()->host_id = host;
}

static ts_status join_as_process(ts_job *job, ts_test *test)
{
    char path[96];
    snprintf(path, sizeof path, "%s/store", job->root);
    ts_status status = ts_file_store_new(&test->store, path, job->ranks);
    if (status != TS_OK || job->c->no_group) return status;
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.store = test->store;
    opt.rank = test->rank;
    opt.world_size = test->size;
    status = ts_init_process_group(&opt);
    test->group = ts_default_group();
    return status;
}

int ts_job_run_rank(ts_job *job, int rank)
{
    char host[32];
    ts_test test = make_test(job, rank, NULL);
    if (job->c->ranks == 0) {
        int result = run_body(job, &test, TS_OK);
        set_state(&test, TS_SEAT_DONE);
        return result;
    }
    set_state(&test, TS_SEAT_JOINING);
    set_host(job, rank, host);
    ts_status joined = join_as_process(job, &test);
    int result = run_body(job, &test, joined);
    if (ts_is_initialized()) ts_destroy_process_group(NULL);
    ts_store_free(test.store);
    set_state(&test, TS_SEAT_DONE);
    return result;
}

typedef struct rank_thread {
    ts_job *job;
    int rank;
    ts_store *store;
    pthread_t thread;
    int result;
} rank_thread;

static ts_status join_as_thread(ts_job *job, ts_test *test)
{
    if (job->c->no_group) {
        ts_rank_ctx *own = ts_rank_ctx_new();
        if (!own) return TS_ENOMEM;
        ts_thread_set_rank(own);
        ts_rank_ctx_release(own);
        return TS_OK;
    }
    ts_status status = ts_rank_enter(test->rank, test->size, test->store);
    test->group = ts_default_group();
    return status;
}

static void *thread_main(void *user)
{
    rank_thread *self = user;
    char host[32];
    ts_test test = make_test(self->job, self->rank, self->store);
    set_state(&test, TS_SEAT_JOINING);
    set_host(self->job, self->rank, host);
    ts_status joined = join_as_thread(self->job, &test);
    self->result = run_body(self->job, &test, joined);
    if (ts_is_initialized()) ts_destroy_process_group(NULL);
    if (!self->job->c->no_group && joined == TS_OK) ts_rank_leave();
    set_state(&test, TS_SEAT_DONE);
    return NULL;
}

int ts_job_run_threads(ts_job *job)
{
    rank_thread ranks[TS_TEST_MAX_RANKS];
    ts_store *store = NULL;
    int result = TS_EXIT_PASSED;
    if (ts_hash_store_new(&store) != TS_OK) return TS_EXIT_FAILED;
    for (int i = 0; i < job->ranks; i++) {
        ranks[i] = (rank_thread){.job = job, .rank = i, .store = store};
        if (pthread_create(&ranks[i].thread, NULL, thread_main, &ranks[i]) != 0) {
            fprintf(stderr, "cannot start the thread of rank %d\n", i);
            exit(TS_EXIT_FAILED);
        }
    }
    for (int i = 0; i < job->ranks; i++) {
        pthread_join(ranks[i].thread, NULL);
        if (ranks[i].result) result = ranks[i].result;
    }
    ts_store_free(store);
    return result;
}

void ts_test_meet(ts_test *test, const char *where)
{
    char arrived[64], complete[64];
    int64_t here = 0;
    if (!test->store) return;
    snprintf(test->seat->meeting, sizeof test->seat->meeting, "%s", where);
    snprintf(arrived, sizeof arrived, "test/meet/%d/arrived", test->meetings);
    snprintf(complete, sizeof complete, "test/meet/%d/complete", test->meetings++);
    ts_status status = ts_store_add(test->store, arrived, 1, &here);
    if (status == TS_OK && here == test->size) status = ts_store_set(test->store, complete, "", 0);
    if (status == TS_OK) status = ts_store_wait(test->store, (const char *[]){complete}, 1, -1);
    if (status != TS_OK) ts_test_fail(test, where, 0, "ts_test_meet: %s", ts_error_last());
    test->seat->meeting[0] = 0;
}
