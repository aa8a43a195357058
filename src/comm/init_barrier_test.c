/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/init_barrier.h"

#include <stdlib.h>

#include "test.h"

static ts_group group_of(ts_test *test, int64_t timeout_ms)
{
    ts_group group = {.size = test->size, .store = test->store};
    group.timeout_ms = timeout_ms;
    return group;
}

TS_TEST(init_barrier_waits_for_all, .ranks = 3, .mode = TS_TEST_PROCESSES)
{
    const char *here = "here";
    bool exists = true;
    char name[] = "new";
    ts_group group = group_of(test, 5000);
    group.name = name;
    TS_PASS(ts_init_barrier(&group)); /* off */
    setenv("TORCH_DIST_INIT_BARRIER", "1", 1);
    if (test->rank == 2) {
        TS_PASS(ts_store_check(test->store, &here, 1, &exists));
        TS_EXPECT(!exists);
        TS_PASS(ts_store_set(test->store, here, "", 0));
    }
    TS_PASS(ts_init_barrier(&group));
    TS_PASS(ts_store_check(test->store, &here, 1, &exists));
    TS_EXPECT(exists);
}

TS_TEST(init_barrier_says_how_many_have_come, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    char name[] = "new";
    ts_group group = group_of(test, 200);
    group.name = name;
    group.size = 3;
    setenv("TS_DIST_INIT_BARRIER", "yes", 1);
    ts_test_meet(test, "before");
    TS_FAIL(ts_init_barrier(&group), TS_ESTORE, "2 of 3 ranks have come");
    setenv("TS_DIST_INIT_BARRIER", "maybe", 1);
    TS_FAIL(ts_init_barrier(&group), TS_EINVAL, "TS_DIST_INIT_BARRIER is 'maybe'");
}

TS_TEST(init_with_a_barrier, .ranks = 2, .no_group = true, .mode = TS_TEST_PROCESSES)
{
    const char *key = "tessera/0/default/store_based_barrier_key:default:last_worker";
    bool exists = false;
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.rank = test->rank;
    opt.world_size = 2;
    opt.store = test->store;
    setenv("TORCH_DIST_INIT_BARRIER", "1", 1);
    TS_PASS(ts_init_process_group(&opt));
    TS_PASS(ts_store_check(test->store, &key, 1, &exists));
    TS_EXPECT(exists);
    TS_PASS(ts_destroy_process_group(NULL));
}
