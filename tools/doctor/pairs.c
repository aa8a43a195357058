/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks try each other: can all pairs talk, how fast, and do their clocks agree? */
#include <string.h>
#include <tessera/tessera.h>
#include <time.h>

#include "base/clock.h"
#include "doctor.h"
#include "json.h"

enum { ROUNDS = 20, LIMIT_MS = 10000, SKEW_MS = 50 };

static double day_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

typedef struct pair {
    double us, skew_ms;
} pair;

/* The lower rank asks, the other answers with its time. */
static ts_status try_pair(pair *out, int own, int peer)
{
    ts_tensor *t =
        ts_zeros(TS_SHAPE(1), &(ts_tensor_options){.struct_size = sizeof(ts_tensor_options),
                                                   .dtype = TS_FLOAT64});
    double best = 1e18;
    for (int i = 0; i < ROUNDS; i++) {
        double began = day_ns(), there;
        if (own > peer) {
            if (ts_recv(NULL, t, peer, 0, NULL) != TS_OK) return TS_ENETWORK;
            ts_fill_(t, day_ns() * 1e-9);
            if (ts_send(NULL, t, peer, 0) != TS_OK) return TS_ENETWORK;
            continue;
        }
        if (ts_send(NULL, t, peer, 0) != TS_OK) return TS_ENETWORK;
        if (ts_recv(NULL, t, peer, 0, NULL) != TS_OK) return TS_ENETWORK;
        double took = day_ns() - began;
        if (ts_item(t, &there) != TS_OK || took >= best) continue;
        best = took;
        *out = (pair){took * 1e-3 / 2, (there * 1e9 - began - took / 2) * 1e-6};
    }
    return TS_OK;
}

static int report_pair(int own, int peer, ts_status status, const char *why, const pair *p,
                       bool json)
{
    bool skewed = p->skew_ms > SKEW_MS || p->skew_ms < -SKEW_MS;
    if (json) {
        ts_json line = ts_json_begin(stdout);
        ts_json_text(&line, "check", "pair");
        ts_json_int(&line, "from", own);
        ts_json_int(&line, "to", peer);
        ts_json_text(&line, "verdict", status != TS_OK ? "BAD" : skewed ? "note" : "ok");
        ts_json_real(&line, "us", p->us);
        ts_json_real(&line, "skew_ms", p->skew_ms);
        ts_json_text(&line, "text", status != TS_OK ? why : "");
        ts_json_end(&line);
    } else if (status != TS_OK) {
        printf("BAD   %d <-> %d: %s\n", own, peer, why);
    } else {
        double apart = p->skew_ms < 0 ? -p->skew_ms : p->skew_ms;
        printf("%-5s %d <-> %d: %.1f us one way, clocks differ by %.2f ms%s\n",
               skewed ? "note" : "ok", own, peer, p->us, apart,
               apart < 0.005      ? ""
               : p->skew_ms < 0.0 ? " (the first is ahead)"
                                  : " (the second is ahead)");
    }
    return status != TS_OK;
}

int check_pairs(bool json)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.timeout_ms = LIMIT_MS;
    int bad = 0;
    if (ts_init_process_group(&opt) != TS_OK) {
        fprintf(stderr, "tessera doctor: rank %d cannot join: %s\n", ts_rank(), ts_error_last());
        return 1;
    }
    int own = ts_rank(), size = ts_world_size();
    for (int a = 0; a < size; a++)
        for (int b = a + 1; b < size; b++) {
            pair p = {0, 0};
            if (own != a && own != b) continue;
            ts_scope scope = ts_scope_begin();
            ts_status status = try_pair(&p, own, own == a ? b : a);
            if (own == a || status != TS_OK)
                bad += report_pair(a, b, status, ts_error_last(), &p, json);
            ts_scope_end(scope);
        }
    if (ts_barrier(NULL, NULL) != TS_OK) bad++;
    ts_destroy_process_group(NULL);
    return bad;
}
