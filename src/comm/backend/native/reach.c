/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a peer's data: through the mapping of its shared heap, or by the kernel out of its
 * ordinary memory (process_vm_readv).  The kernel gives an error where a mapping would fault: ranks
 * that are threads of one process read each other so too, for one that gives up may free its
 * tensors while others still read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/settings.h"
#include "comm/backend/native/native.h"
#include "kernels/combine.h"

enum {
    FETCH_BYTES = 128 * 1024, /* at once, to be reduced: stays in the cache */
    LOSS_MS = 1000            /* until the loss of a peer that cannot be read is known */
};

/* ---- who can --------------------------------------------------------------------------------- */

void ts_shm_sign(ts_shm *s)
{
    ts_control *c = s->control;
    c->pid = getpid();
    atomic_init(&c->left_at, UINT64_MAX);
    c->address = (uint64_t)(uintptr_t)&c->key;
    c->key = ((uint64_t)ts_now_ns() << 20) ^ ((uint64_t)c->pid << 40) ^ c->address;
}

void ts_shm_leave(ts_shm *s, uint64_t number)
{
    if (number < atomic_load(&s->control->left_at)) atomic_store(&s->control->left_at, number);
    atomic_thread_fence(memory_order_seq_cst); /* before its memory changes */
}

static ssize_t read_memory(int64_t pid, void *to, uint64_t from, size_t bytes)
{
    struct iovec own = {to, bytes}, other = {(void *)(uintptr_t)from, bytes};
    return process_vm_readv((pid_t)pid, &own, 1, &other, 1, 0);
}

/* Process numbers mean something else in another namespace: the word tells whether it is the peer. */
void ts_shm_probe(ts_shm *s)
{
    s->reads = ts_setting_bool(TS_SETTING_READ_PEERS);
    for (int q = 0; q < s->size && s->reads; q++) {
        const ts_control *c = s->peer[q].control;
        uint64_t key = 0;
        ssize_t n = read_memory(c->pid, &key, c->address, sizeof key);
        s->reads = n == sizeof key && key == c->key;
    }
}

int64_t ts_shm_place_of(const ts_shm *s, ts_buffer data)
{
    if (data.count == 0) return 0;
    if (data.shared_offset >= 0) return data.shared_offset;
    return s->reads ? ~(int64_t)(uintptr_t)data.data : -1;
}

bool ts_shm_all_read(const ts_shm *s, const ts_coll *coll)
{
    for (int q = 0; q < s->size; q++)
        if (!ts_shm_header(s, coll, q)->reads) return false;
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A peer that has died or given up is named by whoever notices its end; that may come a little
 * later. */
static ts_status peer_is_gone(ts_shm *s, const ts_coll *coll, int q, const char *how)
{
    const struct timespec nap = {0, 1000000};
    ts_deadline deadline = ts_deadline_in(LOSS_MS);
    while (!ts_deadline_passed(deadline)) {
        TS_TRY(ts_native_health(s->native, coll));
        nanosleep(&nap, NULL);
    }
    ts_status status =
        ts_native_fail(s->native, coll, TS_ENETWORK, "cannot read the memory of rank %d: %s",
                       ts_native_global(s->native, s->member[q]), how);
    return ts_native_give_up(s->native, status);
}

static ts_status cannot_read(ts_shm *s, const ts_coll *coll, int q, int error)
{
    return peer_is_gone(s, coll, q, error ? strerror(error) : "a part of it is gone");
}

ts_status ts_shm_verify(ts_shm *s, const ts_coll *coll)
{
    uint64_t number = s->native->shared ? coll->sequence : s->sequence;
    atomic_thread_fence(memory_order_acquire); /* after the data */
    for (int q = 0; q < s->size; q++) {
        const ts_control *c = s->peer[q].control;
        if (q == s->rank) continue;
        if (c->key != s->peer[q].key ||
            atomic_load_explicit(&c->left_at, memory_order_relaxed) <= number + 1)
            return peer_is_gone(s, coll, q, "it gave up while this rank read");
    }
    return TS_OK;
}

static ts_status fetch(ts_shm *s, const ts_coll *coll, int q, uint64_t from, char *to, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = read_memory(s->peer[q].control->pid, to, from, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return cannot_read(s, coll, q, n < 0 ? errno : 0);
        from += (size_t)n;
        to += n;
        bytes -= (size_t)n;
    }
    return TS_OK;
}

ts_status ts_shm_copy(ts_shm *s, const ts_coll *coll, int q, int64_t place, size_t at, void *to,
                      size_t bytes)
{
    if (place < 0) return fetch(s, coll, q, (uint64_t)~place + at, to, bytes);
    memcpy(to, s->peer[q].heap + place + at, bytes);
    return TS_OK;
}

static char *room_for(ts_shm *s)
{
    if (!s->fetched) s->fetched = ts_calloc((size_t)s->size, FETCH_BYTES);
    if (!s->fetched) ts_fail_memory((size_t)s->size * FETCH_BYTES, "data of peers");
    return s->fetched;
}

/* In steps, as some of it has to be fetched. */
static ts_status combine_fetched(ts_shm *s, const ts_coll *coll, char *to, const char *own,
                                 size_t at, size_t bytes)
{
    size_t element = ts_dtype_size(coll->dtype);
    char *room = room_for(s);
    if (!room) return ts_native_give_up(s->native, TS_ENOMEM);
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < FETCH_BYTES ? bytes - done : FETCH_BYTES;
        for (int q = 0; q < s->size; q++) {
            char *mine = room + (size_t)q * FETCH_BYTES;
            s->sources[q] = q == s->rank      ? own + done
                            : s->place[q] < 0 ? mine
                                              : s->peer[q].heap + s->place[q] + at + done;
            if (q != s->rank && s->place[q] < 0)
                TS_TRY(ts_shm_copy(s, coll, q, s->place[q], at + done, mine, n));
        }
        ts_combine(to + done, s->sources, s->size, (int64_t)(n / element), coll->dtype,
                   coll->reduce);
    }
    return TS_OK;
}

ts_status ts_shm_combine(ts_shm *s, const ts_coll *coll, void *to, const void *own, size_t at,
                         size_t bytes)
{
    for (int q = 0; q < s->size; q++) {
        if (q != s->rank && s->place[q] < 0) return combine_fetched(s, coll, to, own, at, bytes);
        s->sources[q] = q == s->rank ? own : s->peer[q].heap + s->place[q] + at;
    }
    ts_combine(to, s->sources, s->size, (int64_t)(bytes / ts_dtype_size(coll->dtype)), coll->dtype,
               coll->reduce);
    return TS_OK;
}
