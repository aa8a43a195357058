/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/recorder.h"
#include "test.h"

static cJSON *dump(ts_test *test, const ts_dump_options *opt)
{
    char *text = NULL;
    if (ts_flight_recorder_dump(&text, opt) != TS_OK) return NULL;
    cJSON *json = cJSON_Parse(text);
    free(text);
    (void)test;
    return json;
}

static const cJSON *last_entry(const cJSON *json)
{
    const cJSON *entries = cJSON_GetObjectItem(json, "entries");
    return cJSON_GetArrayItem(entries, cJSON_GetArraySize(entries) - 1);
}

static double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : -99;
}

static const char *text(const cJSON *object, const char *key)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItem(object, key));
    return value ? value : "(none)";
}

static void fields(ts_test *test)
{
    ts_tensor *t = ts_ones(TS_SHAPE(2, 3), NULL);
    for (int i = 0; i < 5; i++) TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
    cJSON *json = dump(test, NULL);
    TS_EXPECT(json != NULL);
    const cJSON *e = last_entry(json);
    TS_EXPECT_STR(text(e, "profiling_name"), "native:all_reduce");
    TS_EXPECT_STR(text(e, "state"), "completed");
    TS_EXPECT_INT(number(e, "collective_seq_id"), 5);
    TS_EXPECT_INT(number(e, "p2p_seq_id"), 0);
    TS_EXPECT(number(e, "time_created_ns") > 1e18);
    TS_EXPECT(cJSON_IsTrue(cJSON_GetObjectItem(e, "retired")));
    TS_EXPECT(cJSON_IsFalse(cJSON_GetObjectItem(e, "is_p2p")));
    char *sizes = cJSON_PrintUnformatted(cJSON_GetObjectItem(e, "input_sizes"));
    TS_EXPECT_STR(sizes, "[[2,3]]");
    free(sizes);
    const cJSON *frame = cJSON_GetArrayItem(cJSON_GetObjectItem(e, "frames"), 0);
    TS_EXPECT_STR(text(frame, "filename"), "recorder_test.c");
    TS_EXPECT(number(frame, "line") > 0);
    const cJSON *config = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "pg_config"), "default");
    TS_EXPECT_STR(text(config, "name"), "default");
    TS_EXPECT_STR(text(config, "ranks"), "[0,1]");
    const cJSON *status = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "pg_status"), "default");
    TS_EXPECT_INT(number(status, "last_completed_collective"), 5);
    cJSON_Delete(json);
    TS_PASS(ts_barrier(test->group, NULL));
}

TS_TEST(recorder_has_the_fields, .ranks = 2) { fields(test); }

/* A receive that waits is active; what came before is not. */
TS_TEST(recorder_shows_what_is_under_way, .ranks = 2)
{
    ts_work *work;
    ts_tensor *t = ts_zeros(TS_SHAPE(4), NULL);
    TS_PASS(ts_barrier(test->group, NULL));
    TS_PASS(ts_irecv(test->group, t, 1 - test->rank, 7, &work));
    ts_dump_options opt = TS_DUMP_OPTIONS_INIT;
    opt.only_active = true;
    cJSON *json = dump(test, &opt);
    TS_EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItem(json, "entries")), 1);
    const cJSON *e = last_entry(json);
    TS_EXPECT_STR(text(e, "profiling_name"), test->rank ? "native:recv 1<-0" : "native:recv 0<-1");
    TS_EXPECT_STR(text(e, "state"), "started");
    TS_EXPECT_INT(number(e, "tag"), 7);
    TS_EXPECT_INT(number(e, "p2p_seq_id"), 1);
    cJSON_Delete(json);
    ts_test_meet(test, "looked");
    TS_PASS(ts_send(test->group, t, 1 - test->rank, 7));
    TS_PASS(ts_work_wait(work, 0));
    ts_work_free(work);
    json = dump(test, &opt);
    TS_EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItem(json, "entries")), 0);
    cJSON_Delete(json);
}

TS_TEST(recorder_keeps_the_last_entries, .ranks = 2, .no_group = true, .mode = TS_TEST_PROCESSES)
{
    setenv("TORCH_FR_BUFFER_SIZE", "50", 1);
    ts_init_options init = TS_INIT_OPTIONS_INIT;
    init.store = test->store;
    init.rank = test->rank;
    init.world_size = test->size;
    TS_PASS(ts_init_process_group(&init));
    ts_tensor *t = ts_ones(TS_SHAPE(1), NULL);
    for (int i = 0; i < 100; i++) TS_PASS(ts_all_reduce(NULL, t, TS_MAX, NULL));
    cJSON *json = dump(test, NULL);
    int n = cJSON_GetArraySize(cJSON_GetObjectItem(json, "entries"));
    TS_EXPECT(n >= 50 && n <= 64);
    TS_EXPECT_INT(number(last_entry(json), "collective_seq_id"), 100);
    cJSON_Delete(json);
    TS_PASS(ts_flight_recorder_reset());
    TS_PASS(ts_barrier(NULL, NULL));
    json = dump(test, NULL);
    TS_EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItem(json, "entries")), 1);
    cJSON_Delete(json);
}

/* By signal, while it hangs. */
TS_TEST(recorder_dumps_on_signal, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    char prefix[160], path[180];
    struct stat info;
    snprintf(prefix, sizeof prefix, "%s/trace_", test->dir);
    setenv("TESSERA_DUMP_FILE", prefix, 1);
    snprintf(path, sizeof path, "%s%d", prefix, test->rank);
    TS_PASS(ts_barrier(test->group, NULL));
    TS_PASS(ts_dump_on_signal(SIGUSR1));
    kill(getpid(), SIGUSR1);
    for (int i = 0; i < 500 && stat(path, &info) != 0; i++) usleep(10000);
    TS_EXPECT(stat(path, &info) == 0 && info.st_size > 100);
    TS_PASS(ts_barrier(test->group, NULL));
}

static ts_status take(int rank, const char *json, size_t size, void *user)
{
    *(int *)user += size > 0 && json && rank >= 0;
    return TS_OK;
}

TS_TEST(recorder_dumps_after_a_time_out, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    int taken = 0;
    TS_PASS(ts_register_dump_writer(take, &taken));
    TS_FAIL(ts_register_dump_writer(take, &taken), TS_ESTATE, "already");
    TS_PASS(ts_group_set_timeout(test->group, 200));
    if (test->rank == 0) {
        TS_FAIL(ts_barrier(test->group, NULL), TS_ETIMEOUT, "rank 1");
        TS_EXPECT_INT(taken, 1);
    }
    ts_test_meet(test, "dumped");
}

static void hear(const ts_operation_event *event, void *user)
{
    int *heard = user;
    if (strcmp(event->name, "native:broadcast") == 0) heard[event->ended]++;
}

TS_TEST(operation_hook_hears_begin_and_end, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    int heard[2] = {0, 0};
    ts_work *work;
    ts_tensor *t = ts_ones(TS_SHAPE(3), NULL);
    ts_set_operation_hook(hear, heard);
    TS_PASS(ts_broadcast(test->group, t, 0, NULL));
    TS_PASS(ts_broadcast(test->group, t, 0, &work));
    TS_PASS(ts_work_wait(work, 0));
    ts_work_free(work);
    ts_set_operation_hook(NULL, NULL);
    TS_EXPECT_INT(heard[0], 2);
    TS_EXPECT_INT(heard[1], 2);
}

/* Another process reads it through /proc. */
TS_TEST(recorder_is_read_from_outside, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    char words[300];
    int64_t pid = getpid(), peer = 0;
    ts_tensor *t = ts_full(TS_SHAPE(1), (double)pid, NULL), *all = ts_zeros(TS_SHAPE(2), NULL);
    TS_PASS(ts_all_gather_into_tensor(test->group, all, t, NULL));
    peer = (int64_t)((const float *)ts_data(all))[1 - test->rank];
    ts_test_meet(test, "quiet");
    const ts_recorder_memory *m = ts_recorder_map((int)peer, 1 - test->rank, 0);
    TS_EXPECT(m != NULL);
    ts_recorder_last_words(words, sizeof words, m);
    TS_EXPECT_TEXT(words, "has finished all_gather_into_tensor #1 of group 'default'");
    ts_recorder_unmap(m);
    TS_EXPECT(ts_recorder_map((int)peer, 5, 0) == NULL);
    ts_test_meet(test, "read");
}

TS_TEST(recorder_dumps_when_its_pipe_is_written, .ranks = 1, .no_group = true,
        .mode = TS_TEST_PROCESSES)
{
    char pipe[200], prefix[200], path[220];
    struct stat info;
    snprintf(pipe, sizeof pipe, "%s/ask_", test->dir);
    snprintf(prefix, sizeof prefix, "%s/trace_", test->dir);
    setenv("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", pipe, 1);
    setenv("TORCH_FR_DUMP_TEMP_FILE", prefix, 1);
    ts_init_options init = TS_INIT_OPTIONS_INIT;
    init.store = test->store;
    init.rank = 0;
    init.world_size = 1;
    TS_PASS(ts_init_process_group(&init));
    snprintf(path, sizeof path, "%s0.pipe", pipe);
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    TS_EXPECT(fd >= 0 && write(fd, "1", 1) == 1);
    close(fd);
    snprintf(path, sizeof path, "%s0", prefix);
    for (int i = 0; i < 500 && stat(path, &info) != 0; i++) usleep(10000);
    TS_EXPECT(stat(path, &info) == 0 && info.st_size > 100);
}
