/* SPDX-License-Identifier: Apache-2.0 */
/* With the address sanitizer, pooled blocks are marked so that an access past the bytes asked for,
 * or to a freed block, is found as it would be with malloc.  Otherwise nothing. */
#ifndef TS_TENSOR_POISON_IMPL_H
#define TS_TENSOR_POISON_IMPL_H

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TS_HAS_POISON 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define TS_HAS_POISON 1
#endif

#ifdef TS_HAS_POISON
#include <sanitizer/asan_interface.h>

/* A block of size bytes of which the first `used` are in use. */
static inline void ts_poison_tail(void *block, size_t size, size_t used)
{
    ASAN_UNPOISON_MEMORY_REGION(block, size);
    ASAN_POISON_MEMORY_REGION((char *)block + used, size - used);
}
static inline void ts_unpoison(void *block, size_t size)
{
    ASAN_UNPOISON_MEMORY_REGION(block, size);
}
#else
static inline void ts_poison_tail(void *block, size_t size, size_t used)
{
    (void)block, (void)size, (void)used;
}
static inline void ts_unpoison(void *block, size_t size) { (void)block, (void)size; }
#endif

#endif
