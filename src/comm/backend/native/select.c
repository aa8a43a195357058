/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/backend/native/select.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "comm/names.h"

typedef struct row {
    ts_collective op;
    ts_hosts_class hosts;
    int min_ranks;
    size_t max_bytes;
    ts_algorithm algorithm;
    size_t segment;
} row;

static const row table[] = {
#define ROW(op, hosts, min_ranks, max_bytes, algorithm, segment)                                   \
    {TS_COLL_##op, TS_HOSTS_##hosts, min_ranks, max_bytes, TS_ALGORITHM_##algorithm, segment},
#include "comm/backend/native/select_table.inc"
#undef ROW
};
enum { NUM_ROWS = sizeof table / sizeof *table };

#define BIT(id) (1u << TS_ALGORITHM_##id)
static const struct {
    unsigned one, more;
} offered[TS_NUM_COLLECTIVES] = {
    [TS_COLL_BARRIER] = {BIT(FLAT), BIT(FLAT)},
    [TS_COLL_ALL_REDUCE] = {BIT(FLAT) | BIT(SHM) | BIT(PUSH),
                            BIT(FLAT) | BIT(DOUBLING) | BIT(HALVING) | BIT(RING) | BIT(DIRECT)},
    [TS_COLL_BROADCAST] = {BIT(FLAT) | BIT(SHM), BIT(FLAT) | BIT(TREE) | BIT(SCATTER) | BIT(CHAIN)},
    [TS_COLL_ALL_GATHER] = {BIT(FLAT) | BIT(SHM), BIT(FLAT) | BIT(RING) | BIT(DIRECT)},
    [TS_COLL_REDUCE_SCATTER] = {BIT(FLAT) | BIT(SHM), BIT(FLAT) | BIT(PAIRWISE) | BIT(DIRECT)},
    [TS_COLL_REDUCE] = {BIT(FLAT) | BIT(SHM), BIT(FLAT) | BIT(TREE) | BIT(DIRECT)},
    [TS_COLL_GATHER] = {BIT(FLAT) | BIT(SHM), BIT(FLAT) | BIT(DIRECT)},
    [TS_COLL_SCATTER] = {BIT(FLAT) | BIT(SHM), BIT(FLAT) | BIT(DIRECT)},
    [TS_COLL_ALL_TO_ALL] = {BIT(FLAT) | BIT(SHM), BIT(FLAT) | BIT(PAIRWISE) | BIT(DIRECT)},
};

const char *ts_algorithm_name(ts_algorithm algorithm)
{
    static const char *const names[] = {
#define X(id, name) [TS_ALGORITHM_##id] = name,
        TS_ALGORITHMS(X)
#undef X
    };
    return (unsigned)algorithm < TS_NUM_ALGORITHMS ? names[algorithm] : "?";
}

unsigned ts_algorithms_offered(ts_collective op, ts_hosts_class hosts)
{
    return hosts == TS_HOSTS_ONE ? offered[op].one : offered[op].more;
}

ts_hosts_class ts_hosts_class_of(int hosts)
{
    return hosts == 1   ? TS_HOSTS_ONE
           : hosts == 2 ? TS_HOSTS_TWO
           : hosts <= 8 ? TS_HOSTS_FEW
                        : TS_HOSTS_MANY;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void add(ts_choice *choice, size_t max_bytes, ts_algorithm algorithm, size_t segment)
{
    int i = 0;
    while (i < TS_MAX_CHOICES - 1 && choice[i].max_bytes > 0) i++;
    choice[i] = (ts_choice){max_bytes ? max_bytes : SIZE_MAX, algorithm, segment};
}

static void fill(ts_choice *choice, ts_collective op, ts_hosts_class hosts, int ranks)
{
    int best = 0;
    for (int i = 0; i < NUM_ROWS; i++)
        if (table[i].op == op && table[i].hosts == hosts && table[i].min_ranks <= ranks &&
            table[i].min_ranks > best)
            best = table[i].min_ranks;
    for (int i = 0; i < NUM_ROWS; i++)
        if (table[i].op == op && table[i].hosts == hosts && table[i].min_ranks == best)
            add(choice, table[i].max_bytes, table[i].algorithm, table[i].segment);
    for (int i = 0; i < TS_MAX_CHOICES; i++)
        if (choice[i].max_bytes == 0) choice[i].max_bytes = SIZE_MAX;
}

/* ---- the override ---------------------------------------------------------------------------- */

static int find_op(const char *text, size_t length)
{
    for (int op = 0; op < TS_NUM_COLLECTIVES; op++) {
        const char *name = ts_collective_name((ts_collective)op);
        if (strlen(name) == length && strncmp(name, text, length) == 0) return op;
    }
    return -1;
}

static int find_algorithm(const char *text, size_t length)
{
    for (int i = 0; i < TS_NUM_ALGORITHMS; i++) {
        const char *name = ts_algorithm_name((ts_algorithm)i);
        if (strlen(name) == length && strncmp(name, text, length) == 0) return i;
    }
    return -1;
}

/* One "op:algorithm[:segment]" of length bytes; false: no such thing. */
static bool override(ts_selection *s, const char *text, size_t length, ts_hosts_class hosts)
{
    const char *end = text + length, *colon = memchr(text, ':', length);
    if (!colon) return false;
    const char *name = colon + 1, *next = memchr(name, ':', (size_t)(end - name));
    int op = find_op(text, (size_t)(colon - text));
    int algorithm = find_algorithm(name, (size_t)((next ? next : end) - name));
    int64_t segment = 0;
    char number[32] = "0";
    if (next) snprintf(number, sizeof number, "%.*s", (int)(end - next - 1), next + 1);
    if (op < 0 || algorithm < 0 || ts_parse_size(&segment, number) != TS_OK) return false;
    if (!(ts_algorithms_offered((ts_collective)op, hosts) >> algorithm & 1)) return true;
    ts_choice *choice = s->choice[op];
    memmove(choice + 1, choice, (TS_MAX_CHOICES - 1) * sizeof *choice);
    choice[0] = (ts_choice){SIZE_MAX, (ts_algorithm)algorithm, (size_t)segment};
    return true;
}

void ts_selection_init(ts_selection *s, int ranks, int hosts)
{
    const char *text = ts_setting_string(TS_SETTING_ALGORITHM);
    ts_hosts_class class = ts_hosts_class_of(hosts);
    memset(s, 0, sizeof *s);
    for (int op = 0; op < TS_NUM_COLLECTIVES; op++)
        fill(s->choice[op], (ts_collective)op, class, ranks);
    while (*text) {
        size_t length = strcspn(text, ",");
        if (length > 0 && !override(s, text, length, class))
            TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING,
                   "TESSERA_ALGORITHM: '%.*s' is not operation:algorithm[:segment]; ignored",
                   (int)length, text);
        text += length + (text[length] == ',');
    }
}
