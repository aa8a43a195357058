/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/tables.h"

typedef float T;
#include "kernels/ref/nn.inc"

#define NN_TABLE ts_nn_f32_ref
#include "kernels/nn_table.inc"
