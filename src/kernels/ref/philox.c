/* SPDX-License-Identifier: Apache-2.0 */
/* Ten rounds over a batch of blocks. */
#include "kernels/philox_impl.h"

void ts_philox_batch_ref(uint32_t *out, uint64_t seed, uint64_t first, uint32_t stream)
{
    enum { N = TS_PHILOX_BATCH };
    uint32_t a[N], b[N], c[N], d[N];
    for (int i = 0; i < N; i++) {
        a[i] = (uint32_t)(first + (uint64_t)i);
        b[i] = (uint32_t)((first + (uint64_t)i) >> 32);
        c[i] = stream;
        d[i] = 0;
    }
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < N; i++) {
            uint64_t x = (uint64_t)a[i] * 0xD2511F53u, y = (uint64_t)c[i] * 0xCD9E8D57u;
            a[i] = (uint32_t)(y >> 32) ^ b[i] ^ key0;
            b[i] = (uint32_t)y;
            c[i] = (uint32_t)(x >> 32) ^ d[i] ^ key1;
            d[i] = (uint32_t)x;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (int i = 0; i < N; i++) {
        out[4 * i] = a[i];
        out[4 * i + 1] = b[i];
        out[4 * i + 2] = c[i];
        out[4 * i + 3] = d[i];
    }
}
