/* SPDX-License-Identifier: Apache-2.0 */
/* Lesson 3: talking between ranks, and what an error looks like on all of them.
 * Run it: build/bin/tessera run -n 3 build/bin/03_collectives */
#include <stdio.h>
#include <tessera/tessera.h>

/* Every rank gets the sum, the same bits everywhere. */
static void sum_ranks(void)
{
    ts_tensor *t = ts_full(TS_SHAPE(4), ts_rank() + 1.0, NULL);
    double value;
    ts_must(ts_all_reduce(NULL, t, TS_SUM, NULL));
    ts_must(ts_item(ts_select(t, 0, 0), &value));
    if (ts_rank() == 0) printf("sum of 1 .. %d is %g\n", ts_world_size(), value);
}

/* Asynchronous: start, do something else, wait. */
static void gather_while_computing(void)
{
    ts_work *work;
    ts_tensor *own = ts_full(TS_SHAPE(1), ts_rank(), NULL);
    ts_tensor *all = ts_empty(TS_SHAPE(ts_world_size()), NULL);
    ts_must(ts_all_gather_into_tensor(NULL, all, own, &work));
    ts_tensor *meanwhile = ts_sum(ts_ones(TS_SHAPE(1000), NULL));
    ts_must(ts_work_wait(work, 0));
    ts_work_free(work);

    double last, count;
    ts_must(ts_item(ts_select(all, 0, -1), &last));
    ts_must(ts_item(meanwhile, &count));
    if (ts_rank() == 0) printf("last rank is %g, counted %g meanwhile\n", last, count);
}

/* A message travels round the ring, one rank after the other. */
static void pass_round(void)
{
    int rank = ts_rank(), size = ts_world_size();
    ts_tensor *token = ts_full(TS_SHAPE(1), 1.0, NULL);
    if (size < 2) return;
    if (rank > 0) ts_must(ts_recv(NULL, token, rank - 1, 0, NULL));
    ts_mul_scalar_(token, 2.0);
    ts_must(ts_send(NULL, token, (rank + 1) % size, 0));
    if (rank == 0) {
        double value;
        ts_must(ts_recv(NULL, token, size - 1, 0, NULL));
        ts_must(ts_item(token, &value));
        printf("doubled by every rank: %g\n", value);
    }
}

/* Ranks that disagree all learn who called what; the group stays usable. */
static void disagree(void)
{
    ts_tensor *t = ts_ones(TS_SHAPE(ts_rank() == 0 ? 3 : 4), NULL);
    ts_status status = ts_all_reduce(NULL, t, TS_SUM, NULL);
    if (ts_rank() == 0) printf("%s: %s\n", ts_status_name(status), ts_error_last());
    ts_must(ts_barrier(NULL, NULL));
}

int main(void)
{
    ts_must(ts_init_process_group(NULL));
    ts_scope scope = ts_scope_begin();
    sum_ranks();
    gather_while_computing();
    pass_round();
    if (ts_world_size() > 1) disagree();
    ts_must(ts_scope_end(scope));
    ts_must(ts_destroy_process_group(NULL));
    return 0;
}
