/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: bytes that claim to be a file of torch.save or safetensors.  What loads can be
 * printed, which reads numbers of every tensor. */
#include <stdlib.h>
#include <string.h>
#include <tessera/scope.h>

#include "serialize/serialize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void free_copy(void *copy, void *user)
{
    (void)user;
    free(copy);
}

static void read_numbers(const ts_object *o)
{
    if (ts_object_kind_of(o) == TS_OBJECT_TENSOR) free(ts_tensor_to_string(ts_object_as_tensor(o)));
    for (int64_t i = 0; i < ts_object_count(o); i++) read_numbers(ts_object_at(o, i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *copy = malloc(size + !size);
    if (!copy) return 0;
    if (size > 0) memcpy(copy, data, size);
    ts_scope scope = ts_scope_begin();
    ts_mapped file = {.data = copy, .size = size};
    file.storage = ts_storage_wrap(copy, size, TS_CATEGORY_OTHER, free_copy, NULL);
    ts_object *o = ts_mapped_read(&file);
    ts_mapped_close(&file);
    if (ts_object_status(o) == TS_OK) read_numbers(o);
    ts_object_free(o);
    (void)ts_scope_end(scope);
    return 0;
}
