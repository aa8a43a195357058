/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/file.h>

#include "store/store_test.h"

typedef struct run {
    const char *path;
    int world_size;
    const char *mark; /* what this run's first process writes */
    int64_t at_ns;    /* start at this moment; 0: at once */
    int crash;        /* stay until killed */
    int ready_fd;     /* gets a byte when the store is open */
} run;

static void hold_on(const run *r)
{
    if (r->ready_fd > 0 && write(r->ready_fd, "x", 1) != 1) _exit(99);
    while (r->crash) pause();
}

/* Process 0 writes the mark, the others must see that one. */
static ts_status take_part(int index, void *arg)
{
    const run *r = arg;
    ts_store *store;
    int64_t total;
    while (ts_now_ns() < r->at_ns) {
    }
    TS_TRY(ts_file_store_new(&store, r->path, r->world_size));
    ts_store_set_timeout(store, 5000);
    if (index == 0) TS_TRY(ts_store_set(store, "mark", r->mark, strlen(r->mark)));
    void *value;
    TS_TRY(ts_store_get(store, "mark", &value, NULL));
    if (strcmp(value, r->mark) != 0)
        return ts_fail(TS_EMISMATCH, "read '%s', not '%s'", (char *)value, r->mark);
    free(value);
    TS_TRY(ts_store_add(store, "count", 1, &total));
    hold_on(r);
    for (int i = 0; i < 10; i++) TS_TRY(ts_store_append(store, "log", "x", 1));
    TS_TRY(ts_store_add(store, "done", 1, &total));
    if (total == r->world_size) TS_TRY(ts_store_set(store, "end", "", 0));
    TS_TRY(ts_store_get(store, "end", &value, NULL));
    free(value);
    size_t size;
    TS_TRY(ts_store_get(store, "log", &value, &size));
    if (size != 10 * (size_t)r->world_size)
        return ts_fail(TS_EMISMATCH, "the log has %zu bytes", size);
    free(value);
    ts_store_free(store);
    return TS_OK;
}

TS_TEST(file_store_of_processes_that_start_together)
{
    char path[256];
    children c;
    test_path(test, path, "store");
    for (int round = 0; round < 20; round++) {
        int n = 2 + round % 3;
        run r = {path, n, round % 2 ? "odd" : "even", ts_now_ns() + 3000000, 0, 0};
        start_children(&c, n, take_part, &r);
        TS_EXPECT_INT(join_children(&c, TS_OK), n);
        TS_EXPECT(access(path, F_OK) != 0);
    }
}

static void crash_run(children *c, run *r)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0) return;
    r->crash = 1;
    r->ready_fd = ready[1];
    start_children(c, 2, take_part, r);
    for (int i = 0; i < 2; i++)
        if (read(ready[0], &byte, 1) != 1) return;
    for (int i = 0; i < 2; i++) kill(c->pid[i], SIGKILL);
    siginfo_t info;
    for (int i = 0; i < 2; i++)
        waitid(P_PID, (id_t)c->pid[i], &info, WEXITED | WNOWAIT); /* zombies */
    close(ready[0]);
    close(ready[1]);
    r->crash = r->ready_fd = 0;
}

/* World size known or not, the dead waited for by their parent or not: never old values. */
TS_TEST(file_store_of_a_crashed_run_is_refused)
{
    char path[256];
    children dead, c;
    for (int round = 0; round < 20; round++) {
        snprintf(path, sizeof path, "%s/crash%d", test->dir, round);
        run r = {path, round % 2 ? 2 : 0, "old", 0, 0, 0};
        crash_run(&dead, &r);
        if (round < 3) TS_EXPECT_INT(join_children(&dead, (ts_status)-1), 2);
        r.mark = "new";
        int64_t start = ts_now_ns();
        start_children(&c, 2, take_part, &r);
        TS_EXPECT_INT(join_children(&c, TS_ESTORE), 2);
        TS_EXPECT(seconds_since(start) < 2);
        ts_store *store;
        TS_FAIL(ts_file_store_new(&store, path, 2), TS_ESTORE, "another run");
        TS_EXPECT_TEXT(ts_error_last(), path);
        TS_EXPECT_TEXT(ts_error_last(), "remove it");
        TS_EXPECT(!store);
    }
}

TS_TEST(file_store_survivor_cleans_up)
{
    for (int world_size = 3; world_size <= 4; world_size++) {
        char path[256];
        children c;
        ts_store *store;
        test_path(test, path, "store");
        run r = {path, world_size, "m", 0, 0, 0};
        TS_PASS(ts_file_store_new(&store, path, world_size));
        TS_PASS(ts_store_set(store, "mark", "m", 1));
        crash_run(&c, &r);
        join_children(&c, TS_OK);
        TS_EXPECT(access(path, F_OK) == 0);
        ts_store_free(store);
        if (world_size == 3) {
            TS_EXPECT(access(path, F_OK) != 0);
        } else { /* the fourth may still come, and must learn it */
            TS_FAIL(ts_file_store_new(&store, path, world_size), TS_ESTORE, "has died");
        }
    }
}

TS_TEST(file_store_counts_its_users)
{
    char path[256];
    ts_store *a, *b, *c;
    test_path(test, path, "store");
    TS_PASS(ts_file_store_new(&a, path, 2));
    TS_FAIL(ts_file_store_new(&c, path, 3), TS_ESTORE, "world size is 3 here, but 2");
    TS_PASS(ts_store_set(a, "k", "v", 1));
    ts_store_free(a); /* the second may come when the first has left */
    TS_PASS(ts_file_store_new(&b, path, 2));
    void *value;
    TS_PASS(ts_store_get(b, "k", &value, NULL));
    TS_EXPECT_STR((char *)value, "v");
    free(value);
    TS_FAIL(ts_file_store_new(&c, path, 2), TS_ESTORE, "2 users have joined before");
    ts_store_free(b);
    TS_EXPECT(access(path, F_OK) != 0);

    TS_PASS(ts_file_store_new(&a, path, -1));
    ts_store_free(a);
    TS_FAIL(ts_file_store_new(&a, path, -1), TS_ESTORE, "all its users have left");
    unlink(path);
    TS_PASS(ts_file_store_new(&a, path, 1));
    unlink(path);
    TS_FAIL(ts_store_set(a, "k", "v", 1), TS_ESTORE, "removed while");
    ts_store_free(a);
}

TS_TEST(file_store_refuses_other_files)
{
    char path[256];
    ts_store *store;
    test_path(test, path, "text");
    FILE *file = fopen(path, "w");
    fprintf(file, "This is a text and not a store.\n");
    fclose(file);
    TS_FAIL(ts_file_store_new(&store, path, 2), TS_ESTORE, "not a store");
    TS_FAIL(ts_file_store_new(&store, "/no/such/folder/store", 2), TS_EIO, "/no/such/folder/store");
    TS_FAIL(ts_file_store_new(&store, test->dir, 2), TS_EIO, "directory");
    TS_FAIL(ts_file_store_new(&store, "", 2), TS_EINVAL, "path");
    TS_FAIL(ts_file_store_new(&store, NULL, 2), TS_EINVAL, "path");
}

/* A record that was cut off by a crash is overwritten; a lock held by a stopped process is an error
 * at the limit. */
TS_TEST(file_store_outlives_half_records_and_locks)
{
    char path[256];
    ts_store *store;
    void *value;
    test_path(test, path, "store");
    TS_PASS(ts_file_store_new(&store, path, 1));
    TS_PASS(ts_store_set(store, "k", "one", 3));
    int fd = open(path, O_WRONLY | O_APPEND);
    TS_EXPECT_INT(write(fd, "\x04\0\0\0/k", 6), 6);
    TS_PASS(ts_store_get(store, "k", &value, NULL));
    TS_EXPECT_STR((char *)value, "one");
    free(value);
    TS_PASS(ts_store_set(store, "k", "two", 3));
    TS_PASS(ts_store_get(store, "k", &value, NULL));
    TS_EXPECT_STR((char *)value, "two");
    free(value);
    TS_EXPECT_INT(flock(fd, LOCK_EX), 0);
    TS_PASS(ts_store_set_timeout(store, 50));
    TS_FAIL(ts_store_set(store, "k", "three", 5), TS_ETIMEOUT, "holds the lock");
    close(fd);
    TS_PASS(ts_store_set(store, "k", "three", 5));
    ts_store_free(store);
}

/* An empty file is as good as none. */
TS_TEST(file_store_two_handles_of_one_process)
{
    char path[256];
    ts_store *a, *b;
    void *value;
    test_path(test, path, "store");
    fclose(fopen(path, "w"));
    TS_PASS(ts_file_store_new(&a, path, 2));
    TS_PASS(ts_file_store_new(&b, path, 2));
    TS_PASS(ts_store_set(a, "k", "v", 1));
    TS_PASS(ts_store_get(b, "k", &value, NULL));
    TS_EXPECT_STR((char *)value, "v");
    free(value);
    int64_t keys;
    TS_PASS(ts_store_num_keys(a, &keys));
    TS_EXPECT(keys > 1); /* and those that keep account of the users */
    unlink(path);        /* not an error when they leave */
    ts_store_free(a);
    ts_store_free(b);
    TS_EXPECT(access(path, F_OK) != 0);
}
