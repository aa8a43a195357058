/* SPDX-License-Identifier: Apache-2.0 */
/* Philox random numbers: any element of the sequence by itself. */
#include "kernels/philox.h"

#include <math.h>
#include <string.h>

#include "kernels/isa.h"
#include "kernels/philox_impl.h"

enum { WORDS = 4 * TS_PHILOX_BATCH };

void ts_philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t v[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t key0 = key[0], key1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t x = (uint64_t)v[0] * 0xD2511F53u, y = (uint64_t)v[2] * 0xCD9E8D57u;
        uint32_t next[4] = {(uint32_t)(y >> 32) ^ v[1] ^ key0, (uint32_t)y,
                            (uint32_t)(x >> 32) ^ v[3] ^ key1, (uint32_t)x};
        memcpy(v, next, sizeof v);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    memcpy(out, v, sizeof v);
}

static ts_philox_batch_fn batch_in_use(void)
{
#if defined(__x86_64__)
    if (ts_isa_in_use() >= TS_ISA_AVX2) return ts_philox_batch_avx2;
#endif
    return ts_philox_batch_ref;
}

static void short_words(uint32_t *out, int64_t n, uint64_t seed, uint64_t first, uint32_t stream)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int64_t done = 0; done < n;) {
        uint64_t block = first / 4;
        uint32_t words[4], counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), stream, 0};
        ts_philox4x32(words, counter, key);
        for (uint64_t lane = first % 4; lane < 4 && done < n; lane++, first++)
            out[done++] = words[lane];
    }
}

void ts_kernel_random_words(uint32_t *out, int64_t n, uint64_t seed, uint64_t first,
                            uint32_t stream)
{
    ts_philox_batch_fn batch = batch_in_use();
    int64_t head = (int64_t)(-first % 4);
    if (head > n) head = n;
    short_words(out, head, seed, first, stream);
    int64_t at = head;
    for (; at + WORDS <= n; at += WORDS) batch(out + at, seed, (first + (uint64_t)at) / 4, stream);
    short_words(out + at, n - at, seed, first + (uint64_t)at, stream);
}

/* ---- uniform --------------------------------------------------------------------------------- */

void ts_kernel_uniform_f32(float *out, int64_t n, uint64_t seed, uint64_t first)
{
    uint32_t word[WORDS] = {0};
    float value[WORDS]; /* whole batches: a loop of known length */
    for (int64_t at = 0; at < n; at += WORDS) {
        int64_t count = n - at < WORDS ? n - at : WORDS;
        ts_kernel_random_words(word, count, seed, first + (uint64_t)at, 0);
        for (int i = 0; i < WORDS; i++) value[i] = (float)(int32_t)(word[i] >> 8) * 0x1p-24f;
        memcpy(out + at, value, (size_t)count * sizeof *value);
    }
}

/* 64 random bits for each of n <= WORDS elements. */
static void pairs(uint64_t *out, int64_t n, uint64_t seed, uint64_t first)
{
    uint32_t high[WORDS], low[WORDS];
    ts_kernel_random_words(high, n, seed, first, 0);
    ts_kernel_random_words(low, n, seed, first, 1);
    for (int64_t i = 0; i < n; i++) out[i] = (uint64_t)high[i] << 32 | low[i];
}

void ts_kernel_uniform_f64(double *out, int64_t n, uint64_t seed, uint64_t first)
{
    uint64_t bits[WORDS];
    for (int64_t at = 0; at < n; at += WORDS) {
        int64_t count = n - at < WORDS ? n - at : WORDS;
        pairs(bits, count, seed, first + (uint64_t)at);
        for (int64_t i = 0; i < count; i++)
            out[at + i] = (double)(int64_t)(bits[i] >> 11) * 0x1p-53;
    }
}

void ts_kernel_uniform_i64(int64_t *out, int64_t n, uint64_t seed, uint64_t first, int64_t low,
                           uint64_t range)
{
    uint64_t bits[WORDS];
    for (int64_t at = 0; at < n; at += WORDS) {
        int64_t count = n - at < WORDS ? n - at : WORDS;
        pairs(bits, count, seed, first + (uint64_t)at);
        for (int64_t i = 0; i < count; i++) {
            uint64_t step = range ? ts_scale_bits(bits[i], range) : bits[i];
            out[at + i] = (int64_t)((uint64_t)low + step);
        }
    }
}

/* ---- normal ---------------------------------------------------------------------------------- */

/* Words to (0, 1]: never 0, so the logarithm is finite. */
static inline float above_zero_f32(uint32_t word) { return (float)word * 0x1p-32f + 0x1p-33f; }
static inline double above_zero_f64(uint64_t bits)
{
    return (double)(int64_t)(bits >> 11) * 0x1p-53 + 0x1p-54;
}

static void pair_f32(float *z, uint32_t word0, uint32_t word1)
{
    float radius = sqrtf(-2 * logf(above_zero_f32(word0)));
    float angle = 6.28318531f * ((float)(int32_t)(word1 >> 8) * 0x1p-24f);
    sincosf(angle, &z[1], &z[0]);
    z[0] *= radius;
    z[1] *= radius;
}

static void pair_f64(double *z, uint64_t bits0, uint64_t bits1)
{
    double radius = sqrt(-2 * log(above_zero_f64(bits0)));
    sincos(6.283185307179586 * ((double)(int64_t)(bits1 >> 11) * 0x1p-53), &z[1], &z[0]);
    z[0] *= radius;
    z[1] *= radius;
}

/* A piece that begins or ends inside a pair makes the whole pair. */
void ts_kernel_normal_f32(float *out, int64_t n, uint64_t seed, uint64_t first)
{
    uint32_t word[WORDS];
    float z[WORDS];
    for (int64_t at = 0; at < n;) {
        int64_t skip = (int64_t)((first + (uint64_t)at) % 2);
        int64_t count = n - at < WORDS - skip ? n - at : WORDS - skip;
        int64_t whole = (skip + count + 1) & ~INT64_C(1);
        ts_kernel_random_words(word, whole, seed, first + (uint64_t)(at - skip), 0);
        for (int64_t i = 0; i < whole; i += 2) pair_f32(z + i, word[i], word[i + 1]);
        memcpy(out + at, z + skip, (size_t)count * sizeof *z);
        at += count;
    }
}

void ts_kernel_normal_f64(double *out, int64_t n, uint64_t seed, uint64_t first)
{
    uint64_t bits[WORDS];
    double z[WORDS];
    for (int64_t at = 0; at < n;) {
        int64_t skip = (int64_t)((first + (uint64_t)at) % 2);
        int64_t count = n - at < WORDS - skip ? n - at : WORDS - skip;
        int64_t whole = (skip + count + 1) & ~INT64_C(1);
        pairs(bits, whole, seed, first + (uint64_t)(at - skip));
        for (int64_t i = 0; i < whole; i += 2) pair_f64(z + i, bits[i], bits[i + 1]);
        memcpy(out + at, z + skip, (size_t)count * sizeof *z);
        at += count;
    }
}
