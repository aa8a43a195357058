/* SPDX-License-Identifier: Apache-2.0 */
/* Init methods that programs have registered. */
#ifndef TS_COMM_HANDLERS_H
#define TS_COMM_HANDLERS_H

#include <tessera/ext/rendezvous.h>

#include "comm/rendezvous.h"

bool ts_handler_exists(const char *url);
/* For a URL with a handler; rank and size of place are given or -1. */
ts_status ts_handler_call(ts_place *place, const char *url, int64_t timeout_ms);
/* TS_EINVAL that says which schemes there are. */
ts_status ts_handler_missing(const char *scheme);

#endif
