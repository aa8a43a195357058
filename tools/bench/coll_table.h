/* SPDX-License-Identifier: Apache-2.0 */
/* The file select_table.inc (select.h says what its rows mean), as tuning reads and writes it. */
#ifndef TS_TOOLS_BENCH_COLL_TABLE_H
#define TS_TOOLS_BENCH_COLL_TABLE_H

#include <stddef.h>

#include "comm/backend/native/select.h"

enum { COLL_TABLE_ROWS = 512 };

/* What a set of rows is for. */
typedef struct coll_key {
    int op, hosts, min_ranks;
} coll_key;

typedef struct coll_table {
    struct coll_row {
        coll_key key;
        ts_choice choice;
    } row[COLL_TABLE_ROWS]; /* in the order of their keys */
    int rows;
} coll_table;

/* An empty table if there is no such file. */
ts_status coll_table_read(coll_table *table, const char *path);
/* NULL: to the standard output. */
ts_status coll_table_write(const coll_table *table, const char *path);
/* The rows that count for key: how many. */
int coll_table_find(const coll_table *table, coll_key key, ts_choice found[TS_MAX_CHOICES]);
/* Sets the rows for key; none if those for fewer ranks say the same. */
ts_status coll_table_put(coll_table *table, coll_key key, const ts_choice *choice, int n);

#endif
