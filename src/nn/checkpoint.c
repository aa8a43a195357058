/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that run again in backward. */
#include <tessera/checkpoint.h>

static ts_status forward(ts_tensor *const *in, int num_in, ts_tensor **out, int num_out, void *user)
{
    (void)num_in, (void)num_out;
    out[0] = ts_forward(user, in[0]);
    return TS_OK;
}

ts_tensor *ts_checkpoint_forward(ts_module *m, ts_tensor *x, const ts_checkpoint_options *opt)
{
    return ts_checkpoint(forward, &x, 1, NULL, 1, m, opt);
}
