/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/blas.h"

#include <stdlib.h>

#include "kernels/isa.h"
#include "test.h"

TS_TEST(blas_multiplies)
{
    const ts_blas *blas;
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1};
    float c[4] = {0};
    TS_PASS(ts_blas_get(&blas));
    blas->sgemm(TS_BLAS_ROW_MAJOR, TS_BLAS_NO_TRANS, TS_BLAS_NO_TRANS, 2, 2, 3, 1, a, 3, b, 2, 0, c,
                2);
    TS_EXPECT_NEAR(c[0], 4, 0);
    TS_EXPECT_NEAR(c[1], 5, 0);
    TS_EXPECT_NEAR(c[2], 10, 0);
    TS_EXPECT_NEAR(c[3], 11, 0);
}

TS_TEST(blas_uses_the_kernels_of_this_processor)
{
    const ts_blas *blas;
    TS_PASS(ts_blas_get(&blas));
    if (ts_isa_best() == TS_ISA_REF || !*blas->core) ts_test_skip(test, "no AVX2, or not OpenBLAS");
    TS_EXPECT(strcmp(blas->core, "Prescott") != 0);
    TS_EXPECT(!getenv("OPENBLAS_CORETYPE")); /* the environment is as it was */
}

TS_TEST(blas_that_is_missing_is_named)
{
    const ts_blas *blas;
    setenv("TESSERA_BLAS", "/nowhere/libblas.so", 1);
    TS_FAIL(ts_blas_get(&blas), TS_EUNSUPPORTED, "/nowhere/libblas.so");
}
