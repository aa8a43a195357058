/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of users begin with '/'.  The others keep account of who uses the file:
 *   run/      first record: "tessera 1 WORLD-SIZE RUN-ID"
 *   refcount/ users at the moment; joined/, cleanup/ users that have come and gone
 *   user/N    identity of the N-th user, until it leaves */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/settings.h"
#include "net/socket.h"
#include "store/log.h"
#include "store/store.h"
#include "store/user.h"

enum { LEAVE_LIMIT_MS = 5000, POLL_STEPS = 4 /* 1, 2, 4, 8 ms */, USERS_LOOKED_AT = 64 };

typedef struct file_store {
    pthread_mutex_t lock;
    char *path;
    int world_size;
    int64_t number; /* in user/N */
    pid_t pid;      /* a forked child does not count as a user */
    ts_log_file file;
} file_store;

static ts_status lock(file_store *f, bool write, ts_deadline deadline)
{
    pthread_mutex_lock(&f->lock);
    ts_status status = ts_log_file_lock(&f->file, write, deadline);
    if (status != TS_OK) pthread_mutex_unlock(&f->lock);
    return status;
}

static void unlock(file_store *f)
{
    ts_log_file_unlock(&f->file);
    pthread_mutex_unlock(&f->lock);
}

/* ---- users ----------------------------------------------------------------------------------- */

static ts_status count(ts_log_file *file, const char *key, int64_t n, int64_t *total)
{
    ts_store_change change = {.op = TS_STORE_ADD, .key = key, .n = n};
    TS_TRY(ts_log_file_change(file, "", &change));
    if (total) *total = change.total;
    return TS_OK;
}

static int64_t number_of(const ts_log_file *file, const char *key)
{
    const ts_entry *e = ts_table_find(&file->table, ts_bytes_of(key));
    int64_t total = 0;
    if (e && e->present &&
        ts_add_number(&total, ts_bytes_of(key), (ts_bytes){e->value, e->size}, 0) != TS_OK)
        return 0;
    return total;
}

static ts_status set(ts_log_file *file, const char *key, const char *text)
{
    ts_store_change change = {.op = TS_STORE_SET, .key = key, .value = text, .size = strlen(text)};
    return ts_log_file_change(file, "", &change);
}

/* Users that are registered and dead; *others: those that live or of whom nothing is known.  *pid
 * is one of the dead. */
static int count_dead(const ts_log_file *file, int *others, int *pid)
{
    char identity[256];
    int dead = 0;
    *others = 0;
    for (const ts_entry *e = NULL;
         (e = ts_table_next(&file->table, e)) && dead + *others < USERS_LOOKED_AT;) {
        if (!e->present || e->key_size < 5 || memcmp(e->key, "user/", 5) != 0 ||
            e->size >= sizeof identity)
            continue;
        memcpy(identity, e->value, e->size);
        identity[e->size] = '\0';
        bool gone = ts_user_is_gone(identity, pid);
        dead += gone;
        *others += !gone;
    }
    return dead;
}

static ts_status refuse(const file_store *f, const char *why)
{
    return ts_fail(
        TS_ESTORE,
        "file store '%s': the file belongs to another run: %s; remove it and start again", f->path,
        why);
}

/* The first record: written by the first user, compared by the others. */
static ts_status check_marker(file_store *f)
{
    const char *run = ts_setting_string(TS_SETTING_RUN_ID);
    const ts_entry *e = ts_table_find(&f->file.table, ts_bytes_of("run/"));
    char text[256], marker[256], their_run[200] = "", why[512];
    int their_size = 0;
    snprintf(marker, sizeof marker, "tessera 1 %d %.190s", f->world_size, run);
    if (f->file.size == 0) return set(&f->file, "run/", marker);
    snprintf(text, sizeof text, "%.*s", e && e->size < sizeof text ? (int)e->size : 0,
             e ? e->value : "");
    if (sscanf(text, "tessera 1 %d %199s", &their_size, their_run) < 1)
        return ts_fail(TS_ESTORE,
                       "file store '%s': the file exists and is not a store; choose another path",
                       f->path);
    snprintf(why, sizeof why, "its run is '%.190s', this one is '%.190s'", their_run, run);
    if (*run && *their_run && strncmp(run, their_run, 190) != 0) return refuse(f, why);
    if (f->world_size > 0 && their_size > 0 && f->world_size != their_size)
        return ts_fail(TS_ESTORE,
                       "file store '%s': world size is %d here, but %d for who made the file",
                       f->path, f->world_size, their_size);
    return TS_OK;
}

static ts_status check_users(file_store *f)
{
    int64_t joined = number_of(&f->file, "joined/"), present = number_of(&f->file, "refcount/");
    char why[128];
    int pid = 0, others;
    if (count_dead(&f->file, &others, &pid) > 0) {
        snprintf(why, sizeof why, "process %d, which used it, has died", pid);
        return refuse(f, why);
    }
    snprintf(why, sizeof why, "%" PRId64 " users have joined before", joined);
    if (f->world_size > 0 && joined >= f->world_size) return refuse(f, why);
    if (f->world_size < 1 && joined > 0 && present == 0)
        return refuse(f, "all its users have left");
    return TS_OK;
}

static ts_status enter(file_store *f)
{
    char key[64], identity[256];
    TS_TRY(check_marker(f));
    TS_TRY(check_users(f));
    TS_TRY(count(&f->file, "joined/", 1, &f->number));
    TS_TRY(count(&f->file, "refcount/", 1, NULL));
    snprintf(key, sizeof key, "user/%" PRId64, f->number);
    ts_user_identity(identity, sizeof identity);
    return set(&f->file, key, identity);
}

/* Who leaves last, or when only dead users remain, removes the file. */
static void leave(file_store *f)
{
    char key[64];
    int64_t present = 0, gone = 0;
    struct stat ours, theirs;
    int pid, others;
    snprintf(key, sizeof key, "user/%" PRId64, f->number);
    ts_store_change forget = {.op = TS_STORE_DELETE, .key = key};
    if (ts_log_file_change(&f->file, "", &forget) != TS_OK ||
        count(&f->file, "refcount/", -1, &present) != TS_OK ||
        count(&f->file, "cleanup/", 1, &gone) != TS_OK)
        return;
    bool last = f->world_size > 0 && present == 0 && gone >= f->world_size;
    bool complete = number_of(&f->file, "joined/") >= f->world_size;
    bool survivor = complete && count_dead(&f->file, &others, &pid) > 0 && others == 0;
    if (!last && !survivor) return;
    if (fstat(f->file.fd, &ours) == 0 && stat(f->path, &theirs) == 0 &&
        ours.st_ino == theirs.st_ino)
        unlink(f->path);
}

/* ---- the class ------------------------------------------------------------------------------- */

static ts_deadline limit(const ts_store *store) { return ts_deadline_in(ts_store_timeout(store)); }

static ts_status file_change(ts_store *store, ts_store_change *change)
{
    file_store *f = ts_store_state(store);
    TS_TRY(lock(f, true, limit(store)));
    ts_status status = ts_log_file_change(&f->file, "/", change);
    unlock(f);
    if (status != TS_OK) {
        free(change->result);
        change->result = NULL;
    }
    return status;
}

static ts_status look(file_store *f, const char *const *keys, int n, ts_deadline deadline,
                      void **values, size_t *sizes, bool *all)
{
    ts_status status = TS_OK;
    TS_TRY(lock(f, false, deadline));
    *all = ts_table_has_all(&f->file.table, "/", keys, n);
    if (*all && values) status = ts_table_copy_all(&f->file.table, "/", keys, n, values, sizes);
    unlock(f);
    return status;
}

static ts_status file_fetch(ts_store *store, const char *const *keys, int n, int64_t timeout_ms,
                            void **values, size_t *sizes)
{
    file_store *f = ts_store_state(store);
    ts_deadline deadline = ts_deadline_in(timeout_ms);
    for (int attempt = 1;; attempt++) {
        bool all, last = ts_deadline_passed(deadline);
        TS_TRY(look(f, keys, n, deadline, values, sizes, &all));
        if (all) return TS_OK;
        if (last) return ts_store_fail_missing(store, keys, n, timeout_ms);
        ts_backoff(attempt < POLL_STEPS ? attempt : POLL_STEPS, deadline);
    }
}

static ts_status file_check(ts_store *store, const char *const *keys, int n, bool *all_exist)
{
    return look(ts_store_state(store), keys, n, limit(store), NULL, NULL, all_exist);
}

static ts_status file_num_keys(ts_store *store, int64_t *number)
{
    file_store *f = ts_store_state(store);
    TS_TRY(lock(f, false, limit(store)));
    *number = f->file.table.keys;
    unlock(f);
    return TS_OK;
}

static ts_status file_queue_push(ts_store *store, const char *key, const void *value, size_t size)
{
    file_store *f = ts_store_state(store);
    TS_TRY(lock(f, true, limit(store)));
    ts_status status = ts_log_file_push(&f->file, "/", key, (ts_bytes){value, size});
    unlock(f);
    return status;
}

static ts_status file_queue_pop(ts_store *store, const char *key, bool block, int64_t timeout_ms,
                                void **value, size_t *size)
{
    file_store *f = ts_store_state(store);
    ts_deadline deadline = ts_deadline_in(timeout_ms);
    for (int attempt = 1;; attempt++) {
        bool last = ts_deadline_passed(deadline);
        TS_TRY(lock(f, true, deadline));
        ts_status status = ts_log_file_pop(&f->file, "/", key, value, size);
        unlock(f);
        if (status != TS_OK || *value || !block) return status;
        if (last) return ts_store_fail_missing(store, &key, 1, timeout_ms);
        ts_backoff(attempt < POLL_STEPS ? attempt : POLL_STEPS, deadline);
    }
}

static ts_status file_queue_len(ts_store *store, const char *key, int64_t *length)
{
    file_store *f = ts_store_state(store);
    char *name = ts_asprintf("/%s", key);
    if (!name) return ts_fail_memory(strlen(key), "a key of a file store");
    ts_status status = lock(f, false, limit(store));
    if (status == TS_OK) {
        *length = ts_table_queued(&f->file.table, ts_bytes_of(name));
        unlock(f);
    }
    free(name);
    return status;
}

static ts_status file_list_keys(ts_store *store, ts_store_key_fn *take, void *user)
{
    file_store *f = ts_store_state(store);
    TS_TRY(lock(f, false, limit(store)));
    ts_status status = ts_table_list(&f->file.table, "/", take, user);
    unlock(f);
    return status;
}

static void file_describe(const ts_store *store, char *text, size_t size)
{
    snprintf(text, size, "file store '%s'", ((file_store *)ts_store_state(store))->path);
}

static void close_store(file_store *f)
{
    ts_log_file_close(&f->file);
    pthread_mutex_destroy(&f->lock);
    free(f->path);
    free(f);
}

static void file_free(ts_store *store)
{
    file_store *f = ts_store_state(store);
    if (f->pid == getpid() && lock(f, true, ts_deadline_in(LEAVE_LIMIT_MS)) == TS_OK) {
        leave(f);
        unlock(f);
    }
    close_store(f);
}

static const ts_store_class file_class = {
    .struct_size = sizeof file_class,
    .name = "file store",
    .change = file_change,
    .fetch = file_fetch,
    .check = file_check,
    .num_keys = file_num_keys,
    .free = file_free,
    .describe = file_describe,
    .queue_push = file_queue_push,
    .queue_pop = file_queue_pop,
    .queue_len = file_queue_len,
    .list_keys = file_list_keys,
};

const char *ts_file_store_path(const ts_store *store)
{
    const ts_store *inside = ts_store_innermost(store);
    if (!inside || !ts_store_is(inside, &file_class)) return NULL;
    return ((file_store *)ts_store_state(inside))->path;
}

static ts_status open_store(file_store *f)
{
    int64_t timeout_ms = ts_setting_int(TS_SETTING_STORE_TIMEOUT);
    TS_TRY(ts_log_file_open(&f->file, f->path, ts_deadline_in(timeout_ms)));
    ts_status status = enter(f);
    ts_log_file_unlock(&f->file);
    return status;
}

ts_status ts_file_store_new(ts_store **out, const char *path, int world_size)
{
    if (!out || !path || !*path)
        return ts_fail(TS_EINVAL, "file_store: %s", !out ? "out is NULL" : "there is no path");
    *out = NULL;
    file_store *f = ts_calloc(1, sizeof *f);
    char *copy = f ? ts_strdup(path) : NULL;
    if (!copy) {
        free(f);
        return ts_fail_memory(sizeof *f, "a file store");
    }
    f->path = copy;
    f->world_size = world_size > 0 ? world_size : 0;
    f->pid = getpid();
    f->file.fd = -1;
    pthread_mutex_init(&f->lock, NULL);
    ts_status status = open_store(f);
    if (status == TS_OK) status = ts_store_new(out, &file_class, f);
    if (status != TS_OK) close_store(f);
    return status;
}
