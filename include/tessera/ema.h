/* SPDX-License-Identifier: Apache-2.0 */
/* Exponential moving average of a module's weights (torch.optim.swa_utils.AveragedModel with
 * get_ema_multi_avg_fn).  Local: every replica keeps the same average.  Not to be used by two
 * threads at once. */
#ifndef TESSERA_EMA_H
#define TESSERA_EMA_H

#include <tessera/module.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_ema ts_ema;

typedef struct ts_ema_options {
    size_t struct_size;
    double decay;     /* 0.999: average <- decay average + (1 - decay) weights; in [0, 1] */
    bool use_buffers; /* false: buffers are copied; true: averaged as parameters are */
    bool warmup;      /* false; true: decay is at most (1 + n) / (10 + n) at update n */
} ts_ema_options;
#define TS_EMA_OPTIONS_INIT                                                                        \
    {                                                                                              \
        sizeof(ts_ema_options), 0.999, false, false                                                \
    }

/* Begins with a copy of the module's parameters and buffers, counted as optimizer memory.  The
 * module must outlive it and keep its tensors. */
TS_API ts_status ts_ema_new(ts_ema **out, const ts_module *module, const ts_ema_options *opt);
TS_API void ts_ema_free(ts_ema *ema); /* NULL is fine */

/* After each optimizer step.  The first update copies. */
TS_API ts_status ts_ema_update(ts_ema *ema);
TS_API int64_t ts_ema_num_averaged(const ts_ema *ema);

/* Exchanges the values of module and average: call it before and after an evaluation with the
 * average.  Between, ts_ema_update and the state are TS_ESTATE. */
TS_API ts_status ts_ema_swap(ts_ema *ema);

/* "n_averaged" (int64) and "module.<name>" of every parameter and buffer, sharing storage; NULL
 * after an error, which ts_error_last words. */
TS_API ts_tensor_list *ts_ema_state_dict(const ts_ema *ema);
/* All names must be there, and no others; shapes and dtypes must agree.  Nothing is changed on
 * error. */
TS_API ts_status ts_ema_load_state_dict(ts_ema *ema, const ts_tensor_list *state);

#ifdef __cplusplus
}
#endif
#endif
