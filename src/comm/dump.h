/* SPDX-License-Identifier: Apache-2.0 */
/* When and where the flight recorder is dumped. */
#ifndef TS_COMM_DUMP_H
#define TS_COMM_DUMP_H

#include "comm/recorder.h"

/* Dumps if that is wanted; the calling thread's last error stays. */
void ts_dump_after_failure(ts_recorder *recorder, ts_status status);
/* Signal and pipe of the settings, for a rank whose number is known now. */
ts_status ts_dump_watch(int rank);

#endif
