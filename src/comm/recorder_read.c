/* SPDX-License-Identifier: Apache-2.0 */
/* Reading recorders: one's own, and those of other processes. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/site.h"
#include "comm/names.h"
#include "comm/recorder.h"

enum { MOST_ENTRIES = 1 << 24 };

/* Is it the memory of a recorder, whole and sound? */
static bool is_sound(const ts_recorder_memory *m, size_t bytes)
{
    if (bytes < sizeof *m || m->magic != TS_RECORDER_MAGIC || m->capacity > MOST_ENTRIES)
        return false;
    size_t each = sizeof(ts_recorder_slot) + TS_RECORDER_FRAMES * sizeof(uint64_t);
    return m->capacity > 0 && bytes >= sizeof *m + m->capacity * each;
}

static void decode(ts_op_record *out, const uint64_t *w)
{
    *out = (ts_op_record){.id = w[0],
                          .created_ns = (int64_t)w[1],
                          .started_ns = (int64_t)w[2],
                          .ended_ns = (int64_t)w[3],
                          .state = (int)(w[4] & 0xff),
                          .status = (int)(w[4] >> 8 & 0xff),
                          .sequence = w[5],
                          .site = w[6],
                          .timeout_ms = (int64_t)w[7],
                          .group = (uint32_t)(w[8] >> 32),
                          .name = (int)(w[8] >> 16 & 0xffff),
                          .op = (int)(w[8] >> 8 & 0xff),
                          .dtype = (int)(w[8] & 0xff),
                          .peer = (int32_t)(uint32_t)(w[9] >> 32),
                          .tag = (int32_t)(uint32_t)w[9],
                          .in = (int64_t)w[10],
                          .out = (int64_t)w[11],
                          .ndim = w[12] <= TS_MAX_DIMS ? (int)w[12] : 0};
    for (int i = 0; i < out->ndim; i++) out->dim[i] = (int64_t)w[13 + i];
    if (out->state >= TS_RECORD_NUM_STATES) out->state = TS_RECORD_COMPLETED;
    if (out->dtype >= TS_NUM_DTYPES) out->dtype = 0;
    if (out->name >= TS_RECORDER_NAMES) out->name = 0;
}

/* A whole record, or false if it is being written. */
static bool read_slot(ts_op_record *out, const ts_recorder_memory *m, uint64_t slot)
{
    uint64_t word[TS_RECORDER_WORDS], frame[TS_RECORDER_FRAMES];
    const _Atomic uint64_t *w = m->slot[slot].word, *frames = ts_recorder_frames(m, slot);
    word[0] = atomic_load_explicit(&w[0], memory_order_acquire);
    for (int i = 1; i < TS_RECORDER_WORDS; i++)
        word[i] = atomic_load_explicit(&w[i], memory_order_relaxed);
    for (int i = 0; i < TS_RECORDER_FRAMES; i++)
        frame[i] = atomic_load_explicit(&frames[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (word[0] == 0 || atomic_load_explicit(&w[0], memory_order_relaxed) != word[0]) return false;
    if (word[0] < atomic_load(&m->oldest)) return false;
    decode(out, word);
    memcpy(out->frame, frame, sizeof frame);
    return true;
}

static int by_time(const void *a, const void *b)
{
    const ts_op_record *x = a, *y = b;
    if (x->created_ns != y->created_ns) return x->created_ns < y->created_ns ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

ts_op_record *ts_recorder_read(const ts_recorder_memory *m, int *n)
{
    ts_op_record *records = ts_calloc(m->capacity, sizeof *records);
    *n = 0;
    if (!records) return NULL;
    for (uint64_t i = 0; i < m->capacity; i++)
        if (read_slot(&records[*n], m, i)) ++*n;
    qsort(records, (size_t)*n, sizeof *records, by_time);
    return records;
}

const char *ts_recorder_name(const ts_recorder_memory *m, const ts_op_record *record)
{
    const char *name = m->name[record->name];
    if (record->name > 0 && *name && memchr(name, 0, sizeof m->name[0])) return name;
    if (record->op == TS_RECORD_SEND) return "send";
    if (record->op == TS_RECORD_RECV) return "recv";
    return record->op < TS_NUM_COLLECTIVES ? ts_collective_name((ts_collective)record->op) : "?";
}

const ts_recorder_group *ts_recorder_find_group(const ts_recorder_memory *m, uint64_t id)
{
    for (int i = 0; id > 0 && i < TS_RECORDER_GROUPS; i++) {
        const ts_recorder_group *g = &m->group[i];
        if (atomic_load_explicit(&g->id, memory_order_acquire) == id &&
            memchr(g->name, 0, sizeof g->name) && memchr(g->desc, 0, sizeof g->desc) &&
            memchr(g->backend, 0, sizeof g->backend))
            return g;
    }
    return NULL;
}

int ts_recorder_global(const ts_recorder_group *g, int member)
{
    int runs = g->runs < TS_RECORDER_RUNS ? g->runs : TS_RECORDER_RUNS;
    for (int i = 0; i < runs && member >= 0; i++) {
        if (member < g->run[i].count) return g->run[i].first + member * g->run[i].step;
        member -= g->run[i].count;
    }
    return -1;
}

/* ---- one line -------------------------------------------------------------------------------- */

static const ts_op_record *latest(const ts_op_record *records, int n)
{
    for (int i = n - 1; i >= 0; i--)
        if (records[i].state == TS_RECORD_STARTED) return &records[i];
    return n > 0 ? &records[n - 1] : NULL;
}

bool ts_recorder_last_words(char *text, size_t size, const ts_recorder_memory *m)
{
    static const char *const states[] = {"waits its turn in", "is in", "has finished"};
    int n;
    ts_op_record *records = ts_recorder_read(m, &n);
    const ts_op_record *r = records ? latest(records, n) : NULL;
    if (!r) {
        snprintf(text, size, "no operation yet");
        free(records);
        return false;
    }
    const ts_recorder_group *g = ts_recorder_find_group(m, r->group);
    int64_t since = r->state == TS_RECORD_COMPLETED && r->ended_ns ? r->ended_ns : r->created_ns;
    int used = snprintf(text, size, "%s %s", states[r->state], ts_recorder_name(m, r));
    if (used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, " #%llu of group '%s', begun %.1f s ago",
                 (unsigned long long)r->sequence, g ? g->name : "?",
                 (double)(ts_now_ns() - since) * 1e-9);
    bool under_way = r->state != TS_RECORD_COMPLETED;
    free(records);
    return under_way;
}

static bool is_message(const ts_recorder_memory *m, const ts_op_record *r, const ts_message_key *k)
{
    const ts_recorder_group *g = ts_recorder_find_group(m, r->group);
    int64_t count = k->op == TS_RECORD_SEND ? r->in : r->out;
    return r->op == k->op && r->tag == k->tag && (r->peer == k->peer || r->peer < 0) && g &&
           strcmp(g->name, k->group) == 0 &&
           (uint64_t)count * ts_dtype_size((ts_dtype)r->dtype) == k->bytes;
}

bool ts_recorder_find_message(char *text, size_t size, const ts_recorder_memory *m,
                              const ts_message_key *key)
{
    int n;
    char site[200];
    ts_op_record *records = ts_recorder_read(m, &n);
    while (records && n > 0 && !is_message(m, &records[n - 1], key)) n--;
    bool found = records && n > 0;
    if (found) {
        ts_sites *sites = ts_sites_open((int)m->pid);
        ts_site_format(site, sizeof site, sites, records[n - 1].site);
        ts_sites_close(sites);
        snprintf(text, size, "%s%s%s", ts_recorder_name(m, &records[n - 1]), *site ? " at " : "",
                 site);
    }
    free(records);
    return found;
}

/* ---- of other processes ---------------------------------------------------------------------- */

static const ts_recorder_memory *map_descriptor(const char *path)
{
    struct stat info;
    void *memory = MAP_FAILED;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    if (fstat(fd, &info) == 0 && info.st_size >= (off_t)sizeof(ts_recorder_memory))
        memory = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) return NULL;
    const ts_recorder_memory *m = memory;
    if (is_sound(m, (size_t)info.st_size) && m->bytes == (uint64_t)info.st_size) return m;
    munmap(memory, (size_t)info.st_size);
    return NULL;
}

static bool is_recorder(const char *path)
{
    static const char name[] = "/memfd:tessera-recorder";
    char target[64];
    ssize_t length = readlink(path, target, sizeof target - 1);
    return length >= (ssize_t)sizeof name - 1 && strncmp(target, name, sizeof name - 1) == 0;
}

const ts_recorder_memory *ts_recorder_map(int pid, int rank, int nth)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *folder = opendir(path);
    const ts_recorder_memory *found = NULL;
    if (!folder) return NULL;
    for (struct dirent *entry; !found && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, entry->d_name);
        if (!is_recorder(path)) continue;
        found = map_descriptor(path);
        if (found && (rank >= 0 ? atomic_load(&found->rank) != rank : nth-- > 0)) {
            ts_recorder_unmap(found);
            found = NULL;
        }
    }
    closedir(folder);
    return found;
}

void ts_recorder_unmap(const ts_recorder_memory *memory)
{
    if (memory) munmap((void *)(uintptr_t)memory, memory->bytes);
}
