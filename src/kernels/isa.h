/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction set the kernels use: the best that the processor has, or what TESSERA_ISA says.
 * Results are bit-equal for any number of threads, per instruction set. */
#ifndef TS_KERNELS_ISA_H
#define TS_KERNELS_ISA_H

typedef enum ts_isa {
    TS_ISA_REF = 0, /* plain C, the oracle */
    TS_ISA_AVX2 = 1,
    TS_ISA_AVX512 = 2,
    TS_NUM_ISAS = 3
} ts_isa;

ts_isa ts_isa_in_use(void); /* decided at the first call */
ts_isa ts_isa_best(void);   /* of this processor, whatever TESSERA_ISA says */
const char *ts_isa_name(ts_isa isa);

#endif
