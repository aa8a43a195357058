/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates by step. */
#include <math.h>
#include <tessera/optim.h>

double ts_lr_warmup_cosine(int64_t step, int64_t warmup, int64_t total, double peak, double floor)
{
    if (step < 0) step = 0;
    if (step < warmup) return peak * (double)step / (double)warmup;
    if (step >= total) return floor;
    double progress = (double)(step - warmup) / (double)(total - warmup);
    return floor + 0.5 * (peak - floor) * (1.0 + cos(3.14159265358979323846 * progress));
}
