/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/coll_table.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "comm/names.h"

static const char *const class_names[] = {"ONE", "TWO", "FEW", "MANY"};
static const char head[] = "/* SPDX-License-Identifier: Apache-2.0 */\n"
                           "/* Written by `tessera bench coll --tune`; see select.h. */\n";

static int compare(coll_key a, coll_key b)
{
    if (a.op != b.op) return a.op - b.op;
    return a.hosts != b.hosts ? a.hosts - b.hosts : a.min_ranks - b.min_ranks;
}

/* ---- rows ------------------------------------------------------------------------------------ */

int coll_table_find(const coll_table *table, coll_key key, ts_choice found[TS_MAX_CHOICES])
{
    int n = 0, least = 0;
    for (int i = 0; i < table->rows; i++) {
        coll_key k = table->row[i].key;
        if (k.op != key.op || k.hosts != key.hosts || k.min_ranks > key.min_ranks) continue;
        if (k.min_ranks > least) n = 0;
        least = k.min_ranks;
        if (n < TS_MAX_CHOICES) found[n++] = table->row[i].choice;
    }
    return n;
}

/* The rows of key go; gives the place where they belong. */
static int take_out(coll_table *table, coll_key key)
{
    int begin = 0, end;
    while (begin < table->rows && compare(table->row[begin].key, key) < 0) begin++;
    for (end = begin; end < table->rows && compare(table->row[end].key, key) == 0;) end++;
    memmove(&table->row[begin], &table->row[end], (size_t)(table->rows - end) * sizeof *table->row);
    table->rows -= end - begin;
    return begin;
}

static bool same(const ts_choice *a, const ts_choice *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i].max_bytes != b[i].max_bytes || a[i].algorithm != b[i].algorithm ||
            a[i].segment != b[i].segment)
            return false;
    return true;
}

ts_status coll_table_put(coll_table *table, coll_key key, const ts_choice *choice, int n)
{
    ts_choice before[TS_MAX_CHOICES];
    int at = take_out(table, key);
    if (coll_table_find(table, key, before) == n && same(before, choice, n)) return TS_OK;
    if (table->rows + n > COLL_TABLE_ROWS)
        return ts_fail(TS_EINVAL, "a table has at most %d rows", COLL_TABLE_ROWS);
    memmove(&table->row[at + n], &table->row[at], (size_t)(table->rows - at) * sizeof *table->row);
    for (int i = 0; i < n; i++) table->row[at + i] = (struct coll_row){key, choice[i]};
    table->rows += n;
    return TS_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int number_of(const char *name, const char *(*name_of)(int), int count)
{
    int i = 0;
    while (i < count && strcasecmp(name_of(i), name) != 0) i++;
    return i < count ? i : -1;
}

static const char *op_name(int i) { return ts_collective_name((ts_collective)i); }
static const char *class_name(int i) { return class_names[i]; }
static const char *algorithm_name(int i) { return ts_algorithm_name((ts_algorithm)i); }

static bool read_row(struct coll_row *row, const char *line)
{
    char op[32], hosts[8], algorithm[32], rest[4];
    int n =
        sscanf(line, "ROW(%31[A-Z_], %7[A-Z], %d, %zu, %31[A-Z], %zu%3s", op, hosts,
               &row->key.min_ranks, &row->choice.max_bytes, algorithm, &row->choice.segment, rest);
    if (n != 7 || strcmp(rest, ")") != 0) return false;
    int which = number_of(algorithm, algorithm_name, TS_NUM_ALGORITHMS);
    row->key.op = number_of(op, op_name, TS_NUM_COLLECTIVES);
    row->key.hosts = number_of(hosts, class_name, TS_HOSTS_MANY + 1);
    row->choice.algorithm = (ts_algorithm)which;
    return which >= 0 && row->key.op >= 0 && row->key.hosts >= 0;
}

static ts_status read_lines(coll_table *table, FILE *from, const char *path)
{
    char line[256];
    for (int number = 1; fgets(line, sizeof line, from); number++) {
        struct coll_row *row = &table->row[table->rows];
        if (strncmp(line, "/*", 2) == 0) continue;
        bool good = table->rows < COLL_TABLE_ROWS && read_row(row, line);
        if (good && table->rows > 0) good = compare(row[-1].key, row->key) <= 0;
        if (!good)
            return ts_fail(TS_EFORMAT, "%s: line %d is not the next row of a table", path, number);
        table->rows++;
    }
    return ferror(from) ? ts_fail(TS_EIO, "cannot read %s", path) : TS_OK;
}

ts_status coll_table_read(coll_table *table, const char *path)
{
    table->rows = 0;
    FILE *from = fopen(path, "re");
    if (!from && errno == ENOENT) return TS_OK;
    if (!from) return ts_fail(TS_EIO, "cannot read %s: %s", path, strerror(errno));
    ts_status status = read_lines(table, from, path);
    fclose(from);
    return status;
}

static void put_upper(FILE *to, const char *text)
{
    for (; *text; text++) fputc(toupper((unsigned char)*text), to);
}

static void put_row(FILE *to, const struct coll_row *row)
{
    fprintf(to, "ROW(");
    put_upper(to, op_name(row->key.op));
    fprintf(to, ", %s, %d, %zu, ", class_names[row->key.hosts], row->key.min_ranks,
            row->choice.max_bytes);
    put_upper(to, ts_algorithm_name(row->choice.algorithm));
    fprintf(to, ", %zu)\n", row->choice.segment);
}

ts_status coll_table_write(const coll_table *table, const char *path)
{
    FILE *to = path ? fopen(path, "we") : stdout;
    if (!to) return ts_fail(TS_EIO, "cannot write %s: %s", path, strerror(errno));
    fputs(head, to);
    for (int i = 0; i < table->rows; i++) put_row(to, &table->row[i]);
    bool good = fflush(to) == 0;
    if (path && fclose(to) != 0) good = false;
    return good ? TS_OK : ts_fail(TS_EIO, "cannot write %s", path ? path : "the table");
}
