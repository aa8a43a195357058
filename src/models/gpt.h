/* SPDX-License-Identifier: Apache-2.0 */
/* The GPT model, for its generation. */
#ifndef TS_MODELS_GPT_H
#define TS_MODELS_GPT_H

#include <tessera/models.h>

typedef struct ts_gpt {
    ts_module *transformer, *lm_head;
    ts_gpt_options opt;
} ts_gpt;

ts_gpt *ts_gpt_state(ts_module *m); /* NULL if m is not a GPT, after ts_fail */

/* Keys and values that a forward of the transformer appends to and attends over.  While a cache is
 * set, tokens are the ones that follow it. */
ts_status ts_gpt_cache_begin(ts_gpt *gpt, int64_t batch);
void ts_gpt_cache_clear(ts_gpt *gpt); /* empties it */
int64_t ts_gpt_cache_length(const ts_gpt *gpt);
void ts_gpt_cache_end(ts_gpt *gpt);

#endif
