/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: bytes that claim to be a pickle.  Every value that is reached must be sound. */
#include <stdlib.h>
#include <tessera/status.h>

#include "formats/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ts_pickle_global names[] = {
    {"collections", "OrderedDict", TS_PICKLE_MAKES_DICT}, {"a", "b", 7}, {NULL, NULL, 0}};

static int steps;

static void visit(const ts_pickle_value *v, int depth)
{
    if (depth > 100 || ++steps > 10000) return;
    for (size_t i = 0; i < v->size; i++) steps += v->text[i] == 'x';
    for (int64_t i = 0; i < v->count; i++) visit(v->item[i], depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ts_pickle pickle;
    steps = 0;
    if (ts_pickle_read(&pickle, data, size, names) != TS_OK) return 0;
    if (pickle.used > size) abort();
    visit(pickle.root, 0);
    ts_pickle_free(&pickle);
    return 0;
}
