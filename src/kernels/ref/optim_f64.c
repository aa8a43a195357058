/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/tables.h"

typedef double T;
#define SQRT sqrt
#define OPTIM_TABLE ts_optim_f64_ref
#include "kernels/ref/optim.inc"
