/* SPDX-License-Identifier: Apache-2.0 */
#include <tessera/dtype.h>

static const struct {
    size_t size;
    const char *name;
} dtypes[TS_NUM_DTYPES] = {
#define X(name, number, bytes, text) [number] = {bytes, text},
    TS_DTYPES(X)
#undef X
};

static const char *const devices[TS_NUM_DEVICES] = {
    [TS_CPU] = "cpu", [TS_META] = "meta", [TS_CUDA] = "cuda"};

static bool known(ts_dtype dtype) { return (unsigned)dtype < TS_NUM_DTYPES; }

const char *ts_dtype_name(ts_dtype dtype) { return known(dtype) ? dtypes[dtype].name : "unknown"; }

size_t ts_dtype_size(ts_dtype dtype) { return known(dtype) ? dtypes[dtype].size : 0; }

bool ts_dtype_is_floating(ts_dtype dtype) { return known(dtype) && dtype <= TS_BFLOAT16; }

const char *ts_device_name(ts_device device)
{
    return (unsigned)device < TS_NUM_DEVICES ? devices[device] : "unknown";
}
