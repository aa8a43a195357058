/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that fails softly, reference counts, arrays of pointers. */
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void *ts_calloc(size_t count, size_t size) { return calloc(count ? count : 1, size ? size : 1); }

void *ts_grow(void *array, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / 2 / size) return NULL;
    return realloc(array, count * size + (count * size == 0));
}

char *ts_strdup(const char *text) { return strdup(text); }
char *ts_strndup(const char *text, size_t length) { return strndup(text, length); }

char *ts_asprintf(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    return n < 0 ? NULL : text;
}

int ts_ref_release(_Atomic int64_t *refs)
{
    int64_t before = atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel);
    TS_ASSERT(before > 0);
    return before == 1;
}

int ts_vec_push(ts_vec *vec, void *item)
{
    if (vec->count == vec->capacity) {
        int64_t capacity = vec->capacity ? 2 * vec->capacity : 8;
        void *grown = ts_grow(vec->item, (size_t)capacity, sizeof *vec->item);
        if (!grown) return 0;
        vec->item = grown;
        vec->capacity = capacity;
    }
    vec->item[vec->count++] = item;
    return 1;
}

void ts_vec_fini(ts_vec *vec)
{
    free(vec->item);
    *vec = (ts_vec){0};
}
