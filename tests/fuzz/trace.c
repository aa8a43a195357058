/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: bytes that claim to be a dump of a flight recorder, and what is concluded. */
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[128];
    trace t[2];
    size_t half = size / 2;
    if (!freopen("/dev/null", "w", stdout)) return 0;
    int n = trace_parse(&t[0], (const char *)data, half, why, sizeof why);
    n += trace_parse(&t[n], (const char *)data + half, size - half, why, sizeof why);
    if (n == 0) n = trace_parse(&t[0], (const char *)data, size, why, sizeof why);
    if (n) report_ranks(t, n, false);
    for (int i = 0; i < n; i++) trace_free(&t[i]);
    return 0;
}
