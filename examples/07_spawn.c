/* SPDX-License-Identifier: Apache-2.0 */
/* Lesson 7: ranks without a launcher.  The program starts its own ranks, waits for them, and learns
 * which one failed and why.
 * Run it: build/bin/07_spawn */
#include <stdio.h>
#include <string.h>
#include <tessera/tessera.h>

static ts_status sum(int index, void *arg)
{
    double value;
    ts_must(ts_init_process_group(NULL)); /* the children have the variables of ranks */
    ts_tensor *t = ts_full(TS_SHAPE(2), index + 1, NULL);
    ts_must(ts_all_reduce(NULL, t, TS_SUM, NULL));
    ts_must(ts_item(ts_mean(t), &value));
    if (index == 0) printf("%s: %d ranks, sum %g\n", (char *)arg, ts_world_size(), value);
    return ts_destroy_process_group(NULL);
}

/* A matrix product that cannot be, in one of them only. */
static ts_status fail(int index, void *arg)
{
    double value;
    ts_tensor *a = ts_ones(TS_SHAPE(2, 3), NULL);
    ts_tensor *b = ts_ones(TS_SHAPE(index == 1 ? 4 : 3, 2), NULL);
    (void)arg;
    return ts_item(ts_sum(ts_matmul(a, b)), &value);
}

int main(void)
{
    ts_spawn_options opt = TS_SPAWN_OPTIONS_INIT;
    ts_spawn_entry("sum", sum); /* in a child that was started for it, main ends here */

    opt.ranks = true;
    ts_must(ts_spawn(NULL, 3, &opt, sum, "forked"));

    /* Forking is for processes without threads; this program, started again, may have any. */
    char text[] = "started again";
    opt.entry = "sum";
    opt.arg_bytes = sizeof text;
    ts_must(ts_spawn(NULL, 3, &opt, NULL, text));

    if (ts_spawn(NULL, 2, NULL, fail, NULL) != TS_OK) printf("%s\n", ts_error_last());
    return 0;
}
