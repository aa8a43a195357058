/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: two clients of the TCP store's server send the bytes in turn, in pieces whose
 * sizes are part of the input.  Run it with -dict=tests/fuzz/store_server.dict. */
#include <stdlib.h>

#include "store/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void discard(ts_session *session) { ts_buffer_drop(&session->out, session->out.size); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ts_hub hub = {.flush = discard};
    if (size > 0 && *data == 0xff) hub.key.given = true; /* nobody can get past the proof then */
    ts_session session[2];
    bool open[2] = {true, true};
    const char *why;
    for (int i = 0; i < 2; i++) ts_session_init(&session[i], &hub, NULL);
    while (size > 1) {
        int who = *data >> 7;
        size_t piece = *data & 0x7f;
        data++, size--;
        if (piece > size) piece = size;
        if (open[who]) open[who] = ts_session_feed(&session[who], (const char *)data, piece, &why);
        data += piece;
        size -= piece;
    }
    for (int i = 0; i < 2; i++) {
        if (hub.key.given && session[i].validated) abort();
        ts_session_fini(&session[i]);
    }
    ts_hub_fini(&hub);
    return 0;
}
