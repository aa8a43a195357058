/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <tessera/threads.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/settings.h"
#include "base/thread.h"
#include "test.h"

#include "base/log.h" /* last: its ts_log hides the logarithm */

TS_TEST(status_hierarchy)
{
    TS_EXPECT(ts_status_is(TS_ESHAPE, TS_EINVAL));
    TS_EXPECT(ts_status_is(TS_ETIMEOUT, TS_EDIST));
    TS_EXPECT(!ts_status_is(TS_EINVAL, TS_ESHAPE));
    static const ts_status distributed[] = {TS_ENETWORK,  TS_ESTORE,  TS_EBACKEND, TS_ETIMEOUT,
                                            TS_EMISMATCH, TS_EREMOTE, TS_EABORTED};
    static const ts_status arguments[] = {TS_EINVAL, TS_ESHAPE, TS_EDTYPE, TS_ESTATE,
                                          TS_ENOTMEMBER};
    for (int i = 0; i < 7; i++) {
        TS_EXPECT(ts_status_is(distributed[i], TS_EDIST) &&
                  !ts_status_is(distributed[i], TS_EINVAL));
        TS_EXPECT(ts_status_is(distributed[i], TS_ESTORE) == (distributed[i] == TS_ESTORE));
    }
    for (int i = 0; i < 5; i++)
        TS_EXPECT(ts_status_is(arguments[i], TS_EINVAL) && !ts_status_is(arguments[i], TS_EDIST));
    TS_EXPECT(!ts_status_is(TS_EUNSUPPORTED, TS_EINVAL) &&
              !ts_status_is(TS_EUNSUPPORTED, TS_EDIST));
    TS_EXPECT(!ts_status_is(TS_ENOMEM, TS_OK));
    TS_EXPECT_STR(ts_status_name(TS_EMISMATCH), "TS_EMISMATCH");
}

TS_TEST(error_text_has_the_module_path)
{
    int outer = ts_where_push("gpt");
    int inner = ts_where_push("h.0");
    TS_FAIL(ts_fail(TS_ESHAPE, "linear: %d", 7), TS_ESHAPE, "gpt.h.0: linear: 7");
    ts_where_pop(inner);
    ts_where_pop(outer);
    ts_fail(TS_EINVAL, "plain");
    TS_EXPECT_STR(ts_error_last(), "plain");
    ts_fail(TS_EINVAL, "again: %s", ts_error_last()); /* may quote itself */
    TS_EXPECT_STR(ts_error_last(), "again: plain");
}

TS_TEST(sizes_and_bools_parse)
{
    int64_t n;
    bool b;
    TS_PASS(ts_parse_size(&n, "25MiB"));
    TS_EXPECT_INT(n, 25 << 20);
    TS_PASS(ts_parse_size(&n, "64k"));
    TS_EXPECT_INT(n, 65536);
    TS_FAIL(ts_parse_size(&n, "12Q"), TS_EINVAL, "12Q");
    TS_FAIL(ts_parse_size(&n, "9999999999G"), TS_EINVAL, "9999999999G");
    TS_FAIL(ts_parse_int(&n, ""), TS_EINVAL, "''");
    TS_PASS(ts_parse_bool(&b, "Yes"));
    TS_EXPECT(b);
    TS_FAIL(ts_parse_bool(&b, "maybe"), TS_EINVAL, "maybe");
}

TS_TEST(numeric_settings_have_ranges)
{
    const ts_setting_info *info;
    TS_PASS(ts_settings_check());
    for (int i = 0; (info = ts_setting_describe(i)); i++) {
        bool size = strcmp(info->kind, "SIZE") == 0, ms = strcmp(info->kind, "MS") == 0;
        if (!size && !ms && strcmp(info->kind, "INT") != 0) continue;
        setenv(info->variable, size ? "60000T" : "-5", 1);
        TS_FAIL(ts_settings_check(), TS_EINVAL, info->variable);
        TS_EXPECT(strstr(ts_error_last(), " .. "));
        unsetenv(info->variable);
    }
    setenv("TESSERA_TIMEOUT", "-5", 1);
    TS_FAIL(ts_settings_check(), TS_EINVAL, "TESSERA_TIMEOUT is '-5', which is not a number in 1");
    TS_FAIL(ts_init_process_group(NULL), TS_EINVAL, "TESSERA_TIMEOUT is '-5'");
    TS_EXPECT_INT(ts_setting_int(TS_SETTING_TIMEOUT), 1800000);
    unsetenv("TESSERA_TIMEOUT");
}

TS_TEST(malformed_settings_give_the_default_and_no_error)
{
    setenv("TESSERA_STAGING", "much", 1);
    setenv("TESSERA_SHARED_MEMORY", "perhaps", 1);
    setenv("TESSERA_TIMEOUT", "1s", 1);
    ts_fail(TS_EINVAL, "what was wrong before");
    TS_EXPECT_INT(ts_setting_int(TS_SETTING_STAGING), 4 << 20);
    TS_EXPECT(ts_setting_bool(TS_SETTING_SHARED_MEMORY));
    TS_EXPECT_INT(ts_setting_int(TS_SETTING_TIMEOUT), 1800000);
    TS_EXPECT_STR(ts_error_last(), "what was wrong before");
}

TS_TEST(map_keeps_order)
{
    ts_map map = {0};
    char key[32];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key%d", i);
        TS_EXPECT(ts_map_set(&map, key, (void *)(intptr_t)(i + 1)));
    }
    TS_EXPECT_INT((intptr_t)ts_map_get(&map, "key42"), 43);
    TS_EXPECT(!ts_map_get(&map, "key100"));
    TS_EXPECT(ts_map_set(&map, "key42", NULL)); /* replaces, in its place */
    TS_EXPECT(!ts_map_get(&map, "key42"));
    TS_EXPECT_INT(map.count, 100);
    TS_EXPECT_STR(map.entry[42].key, "key42");
    TS_EXPECT_INT((intptr_t)ts_map_get(&map, "key99"), 100);
    ts_map_fini(&map);
}

static void fill_squares(int64_t begin, int64_t end, void *user)
{
    for (int64_t i = begin; i < end; i++) ((int64_t *)user)[i] = i * i;
}

TS_TEST(parallel_for_covers_everything_once)
{
    enum { N = 10007 };
    static int64_t out[N];
    TS_PASS(ts_set_num_threads(4));
    for (int round = 0; round < 200; round++) {
        memset(out, 0xff, sizeof out);
        ts_parallel_for(N, 97, fill_squares, out);
        for (int64_t i = 0; i < N; i++) TS_EXPECT_INT(out[i], i * i);
    }
    TS_FAIL(ts_set_num_threads(0), TS_EINVAL, "0");
}

TS_TEST(objects_are_zeroed_and_reused)
{
    for (size_t size = 1; size < 3000; size += 37) {
        unsigned char *a = ts_small_new(size);
        TS_EXPECT(a);
        memset(a, 0xab, size);
        ts_small_free(a, size);
        unsigned char *b = ts_small_new(size);
        for (size_t i = 0; i < size; i++) TS_EXPECT_INT(b[i], 0);
        ts_small_free(b, size);
    }
}

TS_TEST(deadlines)
{
    TS_EXPECT_INT(ts_deadline_left_ms(ts_deadline_in(0)), -1);
    TS_EXPECT(!ts_deadline_passed(ts_deadline_in(1000)));
    int left = ts_deadline_left_ms(ts_deadline_in(1000));
    TS_EXPECT(left > 900 && left <= 1000);
}

/* What ts_log_write puts on stderr. */
static void capture_log(char *text, size_t size)
{
    int former = dup(2);
    FILE *file = tmpfile();
    dup2(fileno(file), 2);
    TS_LOG(TS_LOG_DDP, TS_LEVEL_DEBUG, "debug of %s", "ddp");
    TS_LOG(TS_LOG_STORE, TS_LEVEL_INFO, "info of store");
    TS_LOG(TS_LOG_STORE, TS_LEVEL_DEBUG, "debug of store");
    TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING, "warning of comm");
    TS_LOG(TS_LOG_NET, TS_LEVEL_WARNING, "warning of net");
    dup2(former, 2);
    close(former);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

TS_TEST(log_levels_by_component)
{
    char text[2000];
    setenv("TESSERA_LOGS", "+ddp,store,-comm", 1);
    capture_log(text, sizeof text);
    TS_EXPECT_TEXT(text, " ddp debug: debug of ddp\n");
    TS_EXPECT_TEXT(text, " store info: info of store\n");
    TS_EXPECT(!strstr(text, "debug of store") && !strstr(text, "of comm"));
    TS_EXPECT_TEXT(text, " net warning: warning of net\n");
    int rank, hour, minute, second, ms;
    TS_EXPECT_INT(sscanf(text, "%d:%d:%d.%d ", &hour, &minute, &second, &ms), 4);
    ts_rank_current()->rank = 7; /* as after init */
    capture_log(text, sizeof text);
    TS_EXPECT_INT(sscanf(text, "[rank%d] %d:%d:%d.%d ", &rank, &hour, &minute, &second, &ms), 5);
    TS_EXPECT_INT(rank, 7);
}

TS_TEST(threads_are_a_share_of_the_cores)
{
    int share = ts_cores() / 2;
    unsetenv("TESSERA_NUM_THREADS");
    unsetenv("OMP_NUM_THREADS");
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    TS_EXPECT_INT(ts_num_threads(), share > 0 ? share : 1);
    TS_PASS(ts_set_num_threads(3));
    TS_EXPECT_INT(ts_num_threads(), 3);
    TS_FAIL(ts_set_num_threads(0), TS_EINVAL, "0 is not in 1 .. 1024");
}

TS_TEST(env_bool_names_the_variable_and_prefers_the_current_name)
{
    static const char *const names[] = {"TS_TEST_NEW", "TS_TEST_SECOND", NULL};
    static const char *const old[] = {"TS_TEST_OLD", NULL};
    static const char *const yes[] = {"y", "YES", "1", "t", "True"};
    static const char *const no[] = {"n", "No", "0", "F", "false"};
    bool value = true, found = true;
    TS_PASS(ts_env_bool(&value, &found, names, old));
    TS_EXPECT(value && !found);
    for (int i = 0; i < 5; i++) {
        setenv("TS_TEST_SECOND", no[i], 1);
        TS_PASS(ts_env_bool(&value, &found, names, old));
        TS_EXPECT(!value && found);
        setenv("TS_TEST_NEW", yes[i], 1);
        TS_PASS(ts_env_bool(&value, &found, names, old));
        TS_EXPECT(value && found);
        unsetenv("TS_TEST_NEW");
    }
    setenv("TS_TEST_OLD", "1", 1);
    TS_PASS(ts_env_bool(&value, &found, names, old));
    TS_EXPECT(!value); /* the current name wins */
    unsetenv("TS_TEST_SECOND");
    TS_PASS(ts_env_bool(&value, &found, names, old));
    TS_EXPECT(value && found);
    setenv("TS_TEST_NEW", "2", 1);
    TS_FAIL(ts_env_bool(&value, &found, names, old), TS_EINVAL, "TS_TEST_NEW is '2'");
    setenv("TS_TEST_NEW", "yess", 1);
    TS_FAIL(ts_env_bool(&value, &found, names, NULL), TS_EINVAL, "TS_TEST_NEW is 'yess'");
}
