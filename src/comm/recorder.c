/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/recorder.h"

#include <execinfo.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/settings.h"
#include "comm/nccl_variables.h"

/* Words of a slot. */
enum {
    ID,
    CREATED,
    STARTED,
    ENDED,
    STATE,
    SEQUENCE,
    SITE,
    TIMEOUT,
    WHAT,
    PEER,
    IN,
    OUT,
    NDIM,
    DIM
};

enum { RUN = 16 }; /* numbers that a thread takes at once */

struct ts_recorder {
    _Atomic int64_t refs;
    ts_recorder_memory *memory;
    uint64_t capacity;
    int fd;
    bool frames, timing;
    _Atomic uint64_t serial; /* changes when threads must not go on with their runs of numbers */
    pthread_mutex_t lock;    /* guards the table of groups */
    uint64_t groups;         /* opened so far */
    _Atomic int64_t dumped_ns;
    _Atomic(const char *) name[TS_RECORDER_NAMES];
    ts_recorder *next, **link; /* of the process */
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static ts_recorder *all;
static _Atomic uint64_t serials;

static inline uint64_t get(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}
static inline void set(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* ---- life ------------------------------------------------------------------------------------ */

static size_t bytes_for(uint64_t capacity)
{
    return sizeof(ts_recorder_memory) +
           capacity * (sizeof(ts_recorder_slot) + TS_RECORDER_FRAMES * sizeof(uint64_t));
}

static void fill_header(ts_recorder_memory *m, uint64_t capacity)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    m->real_offset_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - ts_now_ns();
    m->bytes = bytes_for(capacity);
    m->pid = getpid();
    m->capacity = (uint32_t)capacity;
    atomic_init(&m->rank, -1);
    atomic_init(&m->size, -1);
    atomic_init(&m->next, 0);
    snprintf(m->run_id, sizeof m->run_id, "%s", ts_setting_string(TS_SETTING_RUN_ID));
    gethostname(m->host, sizeof m->host - 1);
    const char *address = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    if (address && port) snprintf(m->master, sizeof m->master, "%s:%s", address, port);
    m->magic = TS_RECORDER_MAGIC;
}

static bool make_memory(ts_recorder *r)
{
    size_t bytes = bytes_for(r->capacity);
    r->fd = memfd_create("tessera-recorder", MFD_CLOEXEC);
    if (r->fd < 0) return false;
    if (ftruncate(r->fd, (off_t)bytes) != 0) return false;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (memory == MAP_FAILED) return false;
    madvise(memory, bytes, MADV_DONTFORK);
    r->memory = memory;
    fill_header(memory, r->capacity);
    return true;
}

/* A child gets memory of its own in the same place, for it must not write into its parent's. */
static void renew(ts_recorder *r)
{
    size_t bytes = bytes_for(r->capacity);
    int fd = memfd_create("tessera-recorder", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
        close(fd);
        fd = -1;
    }
    close(r->fd);
    r->fd = fd;
    mmap(r->memory, bytes, PROT_READ | PROT_WRITE,
         MAP_FIXED | (fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS), fd, 0);
    for (int i = 0; i < TS_RECORDER_NAMES; i++) atomic_store(&r->name[i], NULL);
    atomic_store(&r->serial, atomic_fetch_add(&serials, 1) + 1);
    pthread_mutex_init(&r->lock, NULL);
    fill_header(r->memory, r->capacity);
}

static void after_fork(void)
{
    pthread_mutex_init(&all_lock, NULL);
    for (ts_recorder *r = all; r; r = r->next) renew(r);
}

static void register_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork); }

static void recorder_free(ts_recorder *r)
{
    if (r->memory) munmap(r->memory, bytes_for(r->capacity));
    if (r->fd >= 0) close(r->fd);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void enlist(ts_recorder *r)
{
    pthread_mutex_lock(&all_lock);
    r->next = all;
    r->link = &all;
    if (all) all->link = &r->next;
    all = r;
    pthread_mutex_unlock(&all_lock);
}

static void *recorder_new(ts_rank_ctx *rank)
{
    (void)rank;
    int64_t entries = ts_env_recorder_entries();
    if (entries <= 0) return NULL;
    ts_recorder *r = ts_calloc(1, sizeof *r);
    if (!r) return NULL;
    atomic_init(&r->refs, 1);
    pthread_mutex_init(&r->lock, NULL);
    r->capacity = RUN; /* a power of two, for dividing is slow */
    while (r->capacity < (uint64_t)entries) r->capacity *= 2;
    atomic_init(&r->serial, atomic_fetch_add(&serials, 1) + 1);
    r->frames = ts_env_flag(TS_ENV_STACKS) || ts_get_debug_level() >= TS_DEBUG_DETAIL;
    r->timing = ts_env_flag(TS_ENV_TIMING);
    if (!make_memory(r)) {
        recorder_free(r);
        return NULL;
    }
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handler);
    enlist(r);
    return r;
}

ts_recorder *ts_recorder_of_rank(void)
{
    return ts_rank_slot_get(ts_rank_current(), TS_SLOT_RECORDER, recorder_new,
                            (void (*)(void *))ts_recorder_release);
}

void ts_recorder_retain(ts_recorder *r)
{
    if (r) ts_ref_retain(&r->refs);
}

void ts_recorder_release(ts_recorder *r)
{
    if (!r || !ts_ref_release(&r->refs)) return;
    pthread_mutex_lock(&all_lock);
    *r->link = r->next;
    if (r->next) r->next->link = r->link;
    pthread_mutex_unlock(&all_lock);
    recorder_free(r);
}

void ts_recorder_each(void (*fn)(ts_recorder *recorder, void *user), void *user)
{
    pthread_mutex_lock(&all_lock);
    for (ts_recorder *r = all; r; r = r->next) fn(r, user);
    pthread_mutex_unlock(&all_lock);
}

void ts_recorder_set_place(ts_recorder *r, int rank, int size)
{
    if (!r) return;
    atomic_store(&r->memory->rank, rank);
    atomic_store(&r->memory->size, size);
}

const ts_recorder_memory *ts_recorder_memory_of(const ts_recorder *r) { return r->memory; }

/* ---- groups ---------------------------------------------------------------------------------- */

/* Free, or of the group that was closed first; NULL: all are in use. */
static ts_recorder_group *find_place(ts_recorder *r)
{
    ts_recorder_group *best = NULL;
    for (int i = 0; i < TS_RECORDER_GROUPS; i++) {
        ts_recorder_group *g = &r->memory->group[i];
        if (get(&g->id) == 0) return g;
        if (atomic_load(&g->closed) && (!best || get(&g->id) < get(&best->id))) best = g;
    }
    return best;
}

static void set_members(ts_recorder_group *g, int size, const int *ranks)
{
    g->runs = 0;
    for (int i = 0; i < size && g->runs < TS_RECORDER_RUNS;) {
        int first = ranks ? ranks[i] : i, n = 1, step = 1;
        if (i + 1 < size) step = ranks ? ranks[i + 1] - first : 1;
        while (i + n < size && (ranks ? ranks[i + n] : i + n) == first + n * step) n++;
        g->run[g->runs++] = (ts_recorder_run){first, n, step};
        i += n;
    }
}

ts_recorder_group *ts_recorder_group_open(ts_recorder *r, const char *name, const char *desc,
                                          const char *backend, int rank, int size, const int *ranks)
{
    if (!r) return NULL;
    pthread_mutex_lock(&r->lock);
    ts_recorder_group *g = find_place(r);
    if (g) {
        set(&g->id, 0);
        set(&g->enqueued, 0);
        set(&g->started, 0);
        set(&g->completed, 0);
        set(&g->messages, 0);
        atomic_store(&g->closed, 0);
        snprintf(g->name, sizeof g->name, "%s", name);
        snprintf(g->desc, sizeof g->desc, "%s", desc ? desc : "");
        snprintf(g->backend, sizeof g->backend, "%s", backend);
        g->rank = rank;
        g->size = size;
        set_members(g, size, ranks);
        atomic_store_explicit(&g->id, ++r->groups, memory_order_release);
    }
    pthread_mutex_unlock(&r->lock);
    return g;
}

void ts_recorder_group_close(ts_recorder *r, ts_recorder_group *group)
{
    (void)r;
    if (group) atomic_store(&group->closed, 1);
}

/* ---- recording ------------------------------------------------------------------------------- */

/* Number of a name in the table; 0, which has no text, if it is full. */
__attribute__((noinline, cold)) static uint64_t enter_name(ts_recorder *r, const char *name)
{
    uint64_t first = (uintptr_t)name >> 2;
    for (uint64_t i = 0; i < TS_RECORDER_NAMES; i++) {
        uint64_t at = (first + i) & (TS_RECORDER_NAMES - 1);
        if (at == 0) continue;
        const char *there = atomic_load_explicit(&r->name[at], memory_order_acquire);
        if (there == name) return at;
        if (there) continue;
        pthread_mutex_lock(&r->lock);
        there = atomic_load(&r->name[at]);
        if (!there) {
            snprintf(r->memory->name[at], sizeof r->memory->name[at], "%s", name);
            atomic_store_explicit(&r->name[at], name, memory_order_release);
        }
        pthread_mutex_unlock(&r->lock);
        if (!there || there == name) return at;
    }
    return 0;
}

/* Nearly always the name is there, in its own place. */
static inline uint64_t number_of(ts_recorder *r, const char *name)
{
    uint64_t at = (uintptr_t)name >> 2 & (TS_RECORDER_NAMES - 1);
    if (at && atomic_load_explicit(&r->name[at], memory_order_acquire) == name) return at;
    return enter_name(r, name);
}

static inline uint64_t next_id(ts_recorder *r)
{
    ts_thread_ctx *thread = ts_thread();
    uint64_t serial = get(&r->serial);
    if (thread->recorder != serial || thread->record_next % RUN == 0) {
        thread->recorder = serial;
        thread->record_next = atomic_fetch_add(&r->memory->next, 1) * RUN;
    }
    return ++thread->record_next;
}

static int64_t coarse_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static ts_recorder_slot *slot_of(const ts_recorder *r, uint64_t id)
{
    return &r->memory->slot[(id - 1) & (r->capacity - 1)];
}

/* Apart, for its array would cost every operation. */
__attribute__((noinline, cold)) static void note_frames(ts_recorder *r, uint64_t id)
{
    void *address[TS_RECORDER_FRAMES + 3] = {NULL};
    int n = backtrace(address, TS_RECORDER_FRAMES + 3);
    _Atomic uint64_t *frame = ts_recorder_frames(r->memory, (id - 1) & (r->capacity - 1));
    for (int i = 0; i < TS_RECORDER_FRAMES; i++)
        set(&frame[i], i + 3 < n ? (uint64_t)(uintptr_t)address[i + 3] : 0);
}

static void note_progress(ts_recorder_group *g, const ts_recording *what)
{
    if (what->op == TS_RECORD_SEND || what->op == TS_RECORD_RECV) {
        set(&g->messages, what->sequence);
        return;
    }
    set(&g->enqueued, what->sequence);
    if (what->started) set(&g->started, what->sequence);
}

uint64_t ts_recorder_begin(ts_recorder *r, const ts_recording *what)
{
    uint64_t id = next_id(r);
    _Atomic uint64_t *w = slot_of(r, id)->word;
    int64_t now = r->timing ? ts_now_ns() : coarse_ns();
    uint64_t group = what->group ? get(&what->group->id) : 0;
    int ndim = what->shape ? what->shape->ndim : 0;
    set(&w[ID], 0);
    atomic_thread_fence(memory_order_release);
    set(&w[CREATED], (uint64_t)now);
    set(&w[STARTED], what->started ? (uint64_t)now : 0);
    set(&w[ENDED], 0);
    set(&w[STATE], what->started ? TS_RECORD_STARTED : TS_RECORD_SCHEDULED);
    set(&w[SEQUENCE], what->sequence);
    set(&w[SITE], (uint64_t)(uintptr_t)what->site);
    set(&w[TIMEOUT], (uint64_t)what->timeout_ms);
    set(&w[WHAT], group << 32 | number_of(r, what->name) << 16 | (uint64_t)what->op << 8 |
                      (uint64_t)what->dtype);
    set(&w[PEER], (uint64_t)(uint32_t)what->peer << 32 | (uint32_t)what->tag);
    set(&w[IN], (uint64_t)what->in);
    set(&w[OUT], (uint64_t)what->out);
    set(&w[NDIM], (uint64_t)ndim);
    for (int i = 0; i < ndim && i < TS_MAX_DIMS; i++)
        set(&w[DIM + i], (uint64_t)what->shape->dim[i]);
    if (r->frames) note_frames(r, id);
    atomic_store_explicit(&w[ID], id, memory_order_release);
    if (what->group) note_progress(what->group, what);
    return id;
}

void ts_recorder_start(ts_recorder *r, uint64_t id, int64_t now_ns)
{
    _Atomic uint64_t *w = slot_of(r, id)->word;
    if (get(&w[ID]) != id) return;
    set(&w[STARTED], (uint64_t)now_ns);
    set(&w[STATE], TS_RECORD_STARTED);
}

void ts_recorder_end(ts_recorder *r, uint64_t id, ts_status status, int64_t ended_ns)
{
    _Atomic uint64_t *w = slot_of(r, id)->word;
    if (get(&w[ID]) != id) return;
    if (ended_ns == 0 && (r->timing || status != TS_OK)) ended_ns = ts_now_ns();
    if (ended_ns) set(&w[ENDED], (uint64_t)ended_ns);
    set(&w[STATE], TS_RECORD_COMPLETED | (uint64_t)status << 8);
    /* The next one's lines: stores that miss would hold up the announcement behind them.  The third
     * has only dimensions behind the third. */
    const char *next = (const char *)slot_of(r, id + 1)->word;
    for (int i = 0; i < 2; i++) __builtin_prefetch(next + 64 * i, 1);
}

void ts_recorder_forget(ts_recorder *r)
{
    atomic_store(&r->memory->oldest, atomic_load(&r->memory->next) * RUN + 1);
    atomic_store(&r->serial, atomic_fetch_add(&serials, 1) + 1);
}

bool ts_recorder_may_dump(ts_recorder *r, int64_t pause_ns)
{
    int64_t now = ts_now_ns(), last = atomic_load(&r->dumped_ns);
    if (last && now - last < pause_ns) return false;
    return atomic_compare_exchange_strong(&r->dumped_ns, &last, now);
}
