/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are frozen while they store into a peer's tensor, and go on when that peer has given up
 * and uses the memory for something else. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/backend/native/native.h"
#include "comm/group_impl.h"
#include "test.h"

enum { COUNT = 3000000, BORDER = 500, PAGE = 4096 };

/* The tensor lies within a whole that it does not fill, off the pages. */
typedef struct place {
    ts_tensor *whole, *part;
} place;

static place make(int rank)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.memory = TS_MEMORY_SHARED;
    place p;
    p.whole = ts_full(TS_SHAPE(COUNT + 2 * BORDER), rank + 1, &opt);
    p.part = ts_slice(p.whole, 0, BORDER, BORDER + COUNT, 1);
    return p;
}

/* ---- a rank that stops ----------------------------------------------------------------------- */

static char *fence;
static size_t fenced;

/* Who touches the fenced pages stops this process, once. */
static void on_fault(int signal)
{
    (void)signal;
    if (mprotect(fence, fenced, PROT_READ | PROT_WRITE) != 0) _exit(3);
    raise(SIGSTOP);
}

static void stop_at(const void *begin, const void *end, int allowed)
{
    fence = (char *)((uintptr_t)begin / PAGE * PAGE);
    fenced = ((uintptr_t)end + PAGE - 1) / PAGE * PAGE - (uintptr_t)fence;
    signal(SIGSEGV, on_fault);
    mprotect(fence, fenced, allowed);
}

/* In the middle of rank 1's share. */
static void stop_midway(const place *p)
{
    const char *middle = (const char *)ts_data(p->part) + ts_nbytes(p->part) / 4 * 3;
    stop_at(middle, middle + 1, PROT_NONE);
}

/* Slot 1 has its pages for itself: the next operation is to use it. */
static void use_slot_1(ts_test *test)
{
    const ts_native *n = test->group->state;
    const ts_slot *slot = n->shm.control->slot;
    if (slot[0].notice.header.sequence < slot[1].notice.header.sequence)
        TS_PASS(ts_barrier(test->group, NULL));
}

/* In the middle of its arrival, with every look at the group's health behind it. */
static void stop_arriving(ts_test *test)
{
    const ts_native *n = test->group->state;
    const ts_notice *notice = &n->shm.control->slot[1].notice;
    stop_at(notice, notice + 1, PROT_READ);
}

static void exchange_pids(ts_test *test, pid_t pid[2])
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    ts_tensor *all = ts_zeros(TS_SHAPE(2), &opt), *own = ts_full(TS_SHAPE(1), getpid(), &opt);
    TS_PASS(ts_all_gather_into_tensor(test->group, all, own, NULL));
    for (int i = 0; i < 2; i++) pid[i] = (pid_t)((const int64_t *)ts_data(all))[i];
}

/* ---- the rank that gives up ------------------------------------------------------------------ */

/* What peers see of the tensor's memory. */
static char *seen_by_peers(const place *p)
{
    const ts_storage *storage = p->whole->storage;
    size_t at = (size_t)storage->shared_offset / PAGE * PAGE;
    int fd = ts_shared_heap_get()->fd;
    return mmap(NULL, storage->nbytes, PROT_READ, MAP_SHARED, fd, (off_t)at);
}

/* Lets rank 1 go on until its operation is over.  Nothing of what it stores is seen here. */
static void wake(ts_test *test, const place *p, pid_t pid)
{
    const char *key = "rank 1 is through";
    const ts_storage *storage = p->whole->storage;
    char *seen = seen_by_peers(p), *before = malloc(storage->nbytes);
    TS_EXPECT(seen != MAP_FAILED && before);
    memset(storage->data, 0x3f, storage->nbytes);
    memcpy(before, seen, storage->nbytes);
    kill(pid, SIGCONT);
    TS_PASS(ts_store_wait(test->store, &key, 1, 10000));
    for (size_t i = 0; i < storage->nbytes; i++)
        TS_EXPECT(((const unsigned char *)storage->data)[i] == 0x3f);
    TS_EXPECT(memcmp(before, seen, storage->nbytes) != 0);
    munmap(seen, storage->nbytes);
    free(before);
}

static void init_again(ts_test *test)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.store = test->store;
    opt.rank = test->rank;
    opt.world_size = test->size;
    TS_PASS(ts_destroy_process_group(NULL));
    TS_PASS(ts_init_process_group(&opt));
}

/* A new group works with the tensor, whose memory is not handed out again. */
static void use_again(ts_test *test, const place *p)
{
    init_again(test);
    TS_PASS(ts_tensor_fill_data(p->whole, 7));
    TS_PASS(ts_all_reduce(NULL, p->part, TS_SUM, NULL));
    TS_EXPECT_ALL(p->part, 14);
    TS_EXPECT_ALL(ts_slice(p->whole, 0, 0, BORDER, 1), 7);
    TS_PASS(ts_broadcast(NULL, p->part, test->size - 1, NULL));
    TS_EXPECT_ALL(p->part, 14);
    if (test->rank == 0)
        TS_PASS(ts_send(NULL, p->part, 1, 0));
    else
        TS_PASS(ts_recv(NULL, p->part, 0, 0, NULL));
    TS_EXPECT_ALL(p->part, 14);
}

static void expect_new_memory(ts_test *test)
{
    ts_scope scope = ts_scope_begin();
    const void *data = ts_data(make(0).whole);
    TS_PASS(ts_scope_end(scope));
    place p = make(test->rank);
    TS_EXPECT(ts_data(p.whole) == data);
    TS_PASS(ts_all_reduce(NULL, p.part, TS_SUM, NULL));
    TS_EXPECT_ALL(p.part, 3);
}

/* ---- tests ----------------------------------------------------------------------------------- */

typedef struct scenario {
    bool midway;  /* rank 1 stops in the middle; else when it arrives */
    bool aborted; /* by another thread; else the time is over */
} scenario;

static void stopping_rank(ts_test *test, const scenario *plan, const place *p)
{
    if (plan->midway)
        stop_midway(p);
    else
        stop_arriving(test);
    ts_all_reduce(test->group, p->part, TS_SUM, NULL);
    ts_store_set(test->store, "rank 1 is through", "", 0);
}

static void *abort_soon(void *group)
{
    usleep(200000);
    ts_abort_process_group(group);
    return NULL;
}

static void staying_rank(ts_test *test, const scenario *plan, const place *p, pid_t peer)
{
    pthread_t thread;
    if (plan->aborted) pthread_create(&thread, NULL, abort_soon, test->group);
    ts_status status = ts_all_reduce(test->group, p->part, TS_SUM, NULL);
    if (plan->aborted) pthread_join(thread, NULL);
    TS_EXPECT_INT(status, plan->aborted ? TS_EABORTED : TS_ETIMEOUT);
    wake(test, p, peer);
}

static void frozen(ts_test *test, const scenario *plan)
{
    pid_t pid[2] = {0, 0};
    ts_scope scope = ts_scope_begin();
    place p = make(test->rank);
    exchange_pids(test, pid);
    use_slot_1(test);
    TS_PASS(ts_group_set_timeout(test->group, plan->aborted ? 20000 : 500));
    if (test->rank == 1)
        stopping_rank(test, plan, &p);
    else
        staying_rank(test, plan, &p, pid[1]);
    if (test->failures) return;
    use_again(test, &p);
    TS_PASS(ts_scope_end(scope));
    expect_new_memory(test);
}

TS_TEST(frozen_while_storing, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    frozen(test, &(scenario){.midway = true});
}

TS_TEST(frozen_while_storing_then_aborted, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    frozen(test, &(scenario){.midway = true, .aborted = true});
}

TS_TEST(frozen_before_it_stores, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    frozen(test, &(scenario){.midway = false});
}

TS_TEST(frozen_before_it_stores_then_aborted, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    frozen(test, &(scenario){.midway = false, .aborted = true});
}
