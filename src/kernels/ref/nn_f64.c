/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/tables.h"

typedef double T;
#include "kernels/ref/nn.inc"

#define NN_TABLE ts_nn_f64_ref
#include "kernels/nn_table.inc"
