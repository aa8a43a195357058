/* SPDX-License-Identifier: Apache-2.0 */
/* Small objects by size class: a free list per thread, filled from chunks that are never given
 * back.  A block freed by another thread joins that thread's list; lists that grow long, and those
 * of a thread that ends, pass half or all of their blocks to a shared list. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { GRAIN = 32, CLASSES = 32, LARGEST = GRAIN * CLASSES, CHUNK = 64 * 1024, LONG_LIST = 4096 };

typedef struct block {
    struct block *next;
} block;
typedef struct list {
    block *head;
    int64_t count;
} list;

static _Thread_local list *own; /* CLASSES lists, made at the first use */
static list shared[CLASSES];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void give_to_shared(list *from, int class_index, int64_t keep)
{
    pthread_mutex_lock(&shared_lock);
    while (from->count > keep) {
        block *b = from->head;
        from->head = b->next;
        from->count--;
        b->next = shared[class_index].head;
        shared[class_index].head = b;
        shared[class_index].count++;
    }
    pthread_mutex_unlock(&shared_lock);
}

static void thread_ends(void *unused)
{
    (void)unused;
    for (int i = 0; i < CLASSES; i++) give_to_shared(&own[i], i, 0);
    free(own);
    own = NULL;
}

static void before_fork(void) { pthread_mutex_lock(&shared_lock); }
static void after_fork(void) { pthread_mutex_unlock(&shared_lock); }

static void prepare_process(void)
{
    pthread_key_create(&exit_key, thread_ends);
    pthread_atfork(before_fork, after_fork, after_fork);
}

/* This thread's lists; NULL: out of memory. */
static list *make_lists(void)
{
    pthread_once(&exit_once, prepare_process);
    own = calloc(CLASSES, sizeof *own);
    if (own) pthread_setspecific(exit_key, own);
    return own;
}

static inline list *own_lists(void) { return own ? own : make_lists(); }

static void carve_chunk(list *to, size_t size)
{
    char *chunk = malloc(CHUNK);
    if (!chunk) return;
    for (size_t at = 0; at + size <= CHUNK; at += size) {
        block *b = (block *)(void *)(chunk + at);
        b->next = to->head;
        to->head = b;
        to->count++;
    }
}

static void refill(list *to, int class_index)
{
    pthread_mutex_lock(&shared_lock);
    list *from = &shared[class_index];
    for (int n = 0; n < 64 && from->head; n++) {
        block *b = from->head;
        from->head = b->next;
        from->count--;
        b->next = to->head;
        to->head = b;
        to->count++;
    }
    pthread_mutex_unlock(&shared_lock);
    if (!to->head) carve_chunk(to, (size_t)(class_index + 1) * GRAIN);
}

static int class_of(size_t size) { return size == 0 ? 0 : (int)((size - 1) / GRAIN); }

#if defined(__SANITIZE_ADDRESS__) || defined(TS_PLAIN_OBJECTS)
/* Sanitizers must see each object's own life. */
void *ts_small_new(size_t size) { return calloc(1, size ? size : 1); }
void ts_small_free(void *object, size_t size)
{
    (void)size, (void)refill, (void)class_of, (void)own_lists;
    free(object);
}
#else
void *ts_small_new(size_t size)
{
    if (size > LARGEST) return calloc(1, size);
    int class_index = class_of(size);
    list *lists = own_lists();
    if (!lists) return NULL;
    list *from = &lists[class_index];
    if (!from->head) refill(from, class_index);
    block *b = from->head;
    if (!b) return NULL;
    from->head = b->next;
    from->count--;
    return memset(b, 0, size);
}

void ts_small_free(void *object, size_t size)
{
    if (!object) return;
    if (size > LARGEST) {
        free(object);
        return;
    }
    int class_index = class_of(size);
    list *lists = own_lists(), alone = {0}, *to = lists ? &lists[class_index] : &alone;
    block *b = object;
    b->next = to->head;
    to->head = b;
    to->count++;
    if (!lists)
        give_to_shared(to, class_index, 0);
    else if (to->count > LONG_LIST)
        give_to_shared(to, class_index, LONG_LIST / 2);
}
#endif
