/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction set the kernels use. */
#include "kernels/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/settings.h"

static const char *const names[TS_NUM_ISAS] = {"ref", "avx2", "avx512"};

const char *ts_isa_name(ts_isa isa) { return names[isa]; }

#if defined(__x86_64__)
/* Not a word that every compiler's __builtin_cpu_supports knows. */
static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static ts_isa find_best(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return TS_ISA_REF;
    int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    return wide ? TS_ISA_AVX512 : TS_ISA_AVX2;
#else
    return TS_ISA_REF;
#endif
}

/* Remembered, because a virtual machine may take microseconds to answer cpuid. */
ts_isa ts_isa_best(void)
{
    static atomic_int found; /* isa + 1; 0: not yet */
    int best = atomic_load_explicit(&found, memory_order_relaxed);
    if (!best) {
        best = (int)find_best() + 1;
        atomic_store_explicit(&found, best, memory_order_relaxed);
    }
    return (ts_isa)(best - 1);
}

static ts_isa choose(void)
{
    ts_isa best = ts_isa_best();
    const char *text = ts_setting_string(TS_SETTING_ISA);
    if (!*text) return best;
    for (int i = 0; i <= (int)best; i++)
        if (strcasecmp(text, names[i]) == 0) return (ts_isa)i;
    TS_LOG(TS_LOG_BASE, TS_LEVEL_WARNING,
           "TESSERA_ISA is %s; this processor takes ref%s%s; using %s", text,
           best >= TS_ISA_AVX2 ? ", avx2" : "", best >= TS_ISA_AVX512 ? ", avx512" : "",
           names[best]);
    return best;
}

ts_isa ts_isa_in_use(void)
{
    static atomic_int chosen; /* isa + 1; 0: not yet */
    int now = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!now) {
        now = (int)choose() + 1;
        atomic_store_explicit(&chosen, now, memory_order_relaxed);
    }
    return (ts_isa)(now - 1);
}
