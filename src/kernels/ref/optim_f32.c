/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/tables.h"

typedef float T;
#define SQRT sqrtf
#define OPTIM_TABLE ts_optim_f32_ref
#include "kernels/ref/optim.inc"
