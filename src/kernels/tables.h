/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of every family of kernels: ts_FAMILY_DTYPE_ISA, such as ts_nn_f32_avx2. */
#ifndef TS_KERNELS_TABLES_H
#define TS_KERNELS_TABLES_H

#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/nn.h"
#include "kernels/optim.h"
#include "kernels/reduce.h"

/* X(family, dtypes): dtypes is the list of the element types that the family has tables of. */
#define TS_KERNEL_FAMILIES(X)                                                                      \
    X(elementwise, NUMBERS)                                                                        \
    X(gemm, FLOATS)                                                                                \
    X(nn, FLOATS)                                                                                  \
    X(optim, FLOATS)                                                                               \
    X(reduce, FLOATS)

#define FLOATS(X, family, isa) X(family, f32, isa) X(family, f64, isa)
#define NUMBERS(X, family, isa) FLOATS(X, family, isa) X(family, i32, isa) X(family, i64, isa)

#define DECLARE(family, dtype, isa)                                                                \
    extern const ts_##family##_kernels ts_##family##_##dtype##_##isa;
#define X(family, dtypes)                                                                          \
    dtypes(DECLARE, family, ref) dtypes(DECLARE, family, avx2) dtypes(DECLARE, family, avx512)
TS_KERNEL_FAMILIES(X)
#undef X
#undef DECLARE

#endif
