/* SPDX-License-Identifier: Apache-2.0 */
/* Lesson 6: groups of some ranks, and what to do when a rank is lost.
 * Run it: build/bin/tessera run -n 4 build/bin/06_groups */
#include <stdio.h>
#include <tessera/tessera.h>

static double sum_over(ts_group *group, double x)
{
    double sum;
    ts_tensor *t = ts_full(TS_SHAPE(1), x, NULL);
    ts_must(ts_all_reduce(group, t, TS_SUM, NULL));
    ts_must(ts_item(t, &sum));
    return sum;
}

/* Ranks as a table: those of a row share a model, say, and those of a column each other's data.
 * Every rank makes all groups, also those that it is not in. */
static void rows_and_columns(int width)
{
    enum { MOST = 64 };
    int ranks[MOST], size = ts_world_size(), height = size / width;
    ts_rank_list columns[MOST];
    ts_group *row, *column;
    for (int k = 0; k < size; k++) ranks[k] = k % height * width + k / height;
    for (int c = 0; c < width; c++)
        columns[c] = (ts_rank_list){ranks + (ptrdiff_t)c * height, height};
    ts_must(ts_new_subgroups(&row, NULL, width, NULL, NULL));
    ts_must(ts_split_group(&column, NULL, columns, width, NULL));
    printf("rank %d: row sum %g, column sum %g\n", ts_rank(), sum_over(row, ts_rank()),
           sum_over(column, ts_rank()));

    /* A number names a rank of all; TS_GROUP_RANK one of the group. */
    ts_tensor *t = ts_full(TS_SHAPE(1), ts_rank(), NULL);
    ts_must(ts_broadcast(row, t, TS_GROUP_RANK(1), NULL));
    double second;
    ts_must(ts_item(t, &second));
    if (ts_group_rank(row) == 0) printf("second of the row of rank %d: %g\n", ts_rank(), second);
    ts_must(ts_destroy_process_group(column));
    ts_must(ts_destroy_process_group(row));
}

static void note(const ts_operation_event *event, void *user)
{
    int64_t *elements = user;
    *elements += event->in;
}

/* Ranks that are not in the list get a handle that says so. */
static void first_two(void)
{
    static const int ranks[] = {0, 1};
    int64_t elements = 0;
    ts_group *pair;
    ts_must(ts_new_group(&pair, ranks, 2, NULL));
    if (!ts_is_member(pair)) return;
    ts_must(ts_group_set_completion_hook(pair, note, &elements));
    for (int i = 0; i < 3; i++) sum_over(pair, 1);
    ts_must(ts_group_set_completion_hook(pair, NULL, NULL));
    if (ts_rank() == 0) printf("elements reduced by the pair: %d\n", (int)elements);
}

/* The last rank is lost; the others go on as a smaller group, which is the default one then. */
static void go_on_without(int lost)
{
    ts_group *rest;
    if (ts_rank() == lost) return;
    ts_status status = ts_barrier(NULL, NULL); /* it has left: this fails */
    int before = ts_rank();
    ts_must(ts_shrink_group(&rest, NULL, &lost, 1, TS_SHRINK_ABORT, NULL));
    printf("%s: rank %d of %d is rank %d of %d now, sum %g\n", ts_status_name(status), before,
           lost + 1, ts_rank(), ts_world_size(), sum_over(rest, 1));
}

int main(void)
{
    ts_must(ts_init_process_group(NULL));
    ts_scope scope = ts_scope_begin();
    int size = ts_world_size();
    if (size % 2 || size > 64) return fprintf(stderr, "run it with an even number of ranks\n"), 2;
    rows_and_columns(2);
    first_two();
    ts_must(ts_barrier(NULL, NULL));
    if (size > 2) go_on_without(size - 1);
    ts_must(ts_scope_end(scope));
    ts_must(ts_destroy_process_group(NULL));
    return 0;
}
