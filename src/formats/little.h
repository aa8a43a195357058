/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian numbers at any address. */
#ifndef TS_FORMATS_LITTLE_H
#define TS_FORMATS_LITTLE_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t ts_little(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static inline uint16_t ts_little16(const uint8_t *at) { return (uint16_t)ts_little(at, 2); }
static inline uint32_t ts_little32(const uint8_t *at) { return (uint32_t)ts_little(at, 4); }
static inline uint64_t ts_little64(const uint8_t *at) { return ts_little(at, 8); }

/* Returns what follows. */
static inline uint8_t *ts_put_little(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
    return at + bytes;
}

#endif
