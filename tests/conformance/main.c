/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a job that runs the table: conformance BACKEND [FILTER], the filter "large" runs the
 * cases that a table for every day leaves out.  Started by mpirun or tessera
 * run.  Prints "conforms: rank R of N". */
#include <stdlib.h>
#include <string.h>

#include "by_store.h"
#include "conformance.h"

static unsigned flags_of(const char *backend)
{
    if (strcmp(backend, "fake") == 0) return CONF_QUICK | CONF_FAKE;
    if (strcmp(backend, "by_store") == 0) return CONF_QUICK | CONF_NO_MESSAGES;
    return CONF_QUICK;
}

int main(int argc, char **argv)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    if (argc < 2) {
        fprintf(stderr, "usage: conformance BACKEND [FILTER]\n");
        return 2;
    }
    opt.backend = argv[1];
    register_by_store();
    ts_must(ts_init_process_group(&opt));
    int rank = ts_rank(), size = ts_world_size();
    const char *filter = argc > 2 ? argv[2] : NULL;
    int failures = filter && strncmp(filter, "large", 5) == 0
                       ? ts_conformance(NULL, filter, CONF_LARGE)
                       : ts_conformance_with_subgroup(filter, flags_of(argv[1]));
    ts_must(ts_destroy_process_group(NULL));
    if (failures == 0) printf("conforms: rank %d of %d\n", rank, size);
    return failures == 0 ? 0 : 1;
}
