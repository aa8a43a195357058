/* SPDX-License-Identifier: Apache-2.0 */
/* Lesson 4: objects, for what is not a tensor: settings, names, results of any shape.
 * Run it: build/bin/tessera run -n 3 build/bin/04_objects */
#include <stdio.h>
#include <stdlib.h>
#include <tessera/tessera.h>

/* Rank 0 decides, all get the same settings. */
static void share_settings(void)
{
    ts_object *settings = NULL;
    double lr;
    if (ts_rank() == 0) {
        settings = ts_object_map();
        ts_object_set(settings, "lr", ts_object_double(0.05));
        ts_object_set(settings, "name", ts_object_text("first run"));
        ts_object_set(settings, "start", ts_object_tensor(ts_arange(0, 3, 1, NULL)));
    }
    ts_must(ts_broadcast_object_list(NULL, &settings, 1, 0));
    ts_must(ts_object_as_double(ts_object_get(settings, "lr"), &lr));
    if (ts_rank() == ts_world_size() - 1) {
        printf("last rank has lr %g of ", lr);
        ts_object_print(settings, stdout);
        printf("\n");
    }
    ts_object_free(settings);
}

/* Every rank reports as much as it likes; rank 0 reads it. */
static void report(void)
{
    enum { MOST = 64 };
    ts_object *all[MOST], *own = ts_object_list();
    int size = ts_world_size(), rank = ts_rank();
    if (size > MOST) return;
    for (int i = 0; i < rank; i++) ts_object_append(own, ts_object_int(i));
    ts_must(ts_gather_object(NULL, rank == 0 ? all : NULL, rank == 0 ? size : 0, own, 0));
    ts_object_free(own);
    for (int i = 0; rank == 0 && i < size; i++) {
        printf("rank %d reports ", i);
        ts_object_print(all[i], stdout);
        printf("\n");
        ts_object_free(all[i]);
    }
}

/* Three objects from rank 0 to rank 1, which need not know who sends. */
static void send_three(void)
{
    ts_object *list[3] = {0};
    int from;
    if (ts_world_size() < 2 || ts_rank() > 1) return;
    if (ts_rank() == 0) {
        list[0] = ts_object_text("foo");
        list[1] = ts_object_int(12);
        list[2] = ts_object_set(ts_object_map(), "1", ts_object_int(2));
        ts_must(ts_send_object_list(NULL, list, 3, 1, 0));
    } else {
        ts_must(ts_recv_object_list(NULL, list, 3, TS_ANY_SOURCE, 0, &from));
        char *last = ts_object_to_string(list[2]);
        printf("rank %d sent a last object %s\n", from, last ? last : "");
        free(last);
    }
    for (int i = 0; i < 3; i++) ts_object_free(list[i]);
}

int main(void)
{
    ts_must(ts_init_process_group(NULL));
    ts_scope scope = ts_scope_begin();
    share_settings();
    report();
    send_three();
    ts_must(ts_scope_end(scope));
    ts_must(ts_destroy_process_group(NULL));
    return 0;
}
