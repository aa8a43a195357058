/* SPDX-License-Identifier: Apache-2.0 */
/* What a seed means. */
#include <stdio.h>

#include "faults.h"

uint64_t dice_next(dice *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t dice_below(dice *d, int64_t n) { return (int64_t)(dice_next(d) % (uint64_t)n); }

bool dice_chance(dice *d, int percent) { return dice_below(d, 100) < percent; }

static const struct {
    const char *name;
    unsigned flags;
} faults[NUM_FAULTS] = {
#define X(id, name, flags) {name, flags},
    FAULTS(X)
#undef X
};

const char *fault_name(fault f) { return faults[f].name; }
unsigned fault_flags(fault f) { return faults[f].flags; }

/* Ranks lie on hosts in any order; each host has at least one. */
static void place_ranks(plan *p, dice *d, int most_hosts)
{
    int most = p->ranks < most_hosts ? p->ranks : most_hosts;
    int hosts = 1 + (int)dice_below(d, most);
    if (fault_flags(p->fault) & NETWORK && hosts < 2) hosts = 2;
    for (int i = 0; i < p->ranks; i++) p->host[i] = i < hosts ? i : (int)dice_below(d, hosts);
    for (int i = p->ranks - 1; i > 0; i--) {
        int j = (int)dice_below(d, i + 1), host = p->host[i];
        p->host[i] = p->host[j];
        p->host[j] = host;
    }
}

static bool has_long_timeout(fault f)
{
    return f != FAULT_LATE && f != FAULT_FREEZE && f != FAULT_THAW && f != FAULT_CUT &&
           f != FAULT_LEAVE;
}

plan plan_of(uint64_t seed, bool with_network, int most_hosts)
{
    dice d = {seed};
    plan p = {.seed = seed};
    do p.fault = (fault)dice_below(&d, NUM_FAULTS);
    while (!with_network && fault_flags(p.fault) & NETWORK);
    p.ranks = 2 + (int)dice_below(&d, MOST_RANKS - 1);
    p.victim = (int)dice_below(&d, p.ranks);
    place_ranks(&p, &d, most_hosts);
    p.threads = !(fault_flags(p.fault) & PROCESSES) && dice_chance(&d, 50);
    p.tcp_store = !(fault_flags(p.fault) & NETWORK) && !p.threads && dice_chance(&d, 50);
    p.join_again = dice_chance(&d, 50) && p.fault != FAULT_CUT;
    p.operations = 20 + (int)dice_below(&d, 20);
    p.at_operation = 1 + (int)dice_below(&d, p.operations - 1);
    p.delay_us = (int)dice_below(&d, 1 << dice_below(&d, 14));
    p.pause_ms = 50 + (int)dice_below(&d, 500);
    p.timeout_ms = has_long_timeout(p.fault) ? 20000 : 2000 + dice_below(&d, 500);
    if (p.fault == FAULT_LEAVE) p.timeout_ms *= 2;
    return p;
}

void plan_print(const plan *p)
{
    printf("%s of rank %d of %d %s on hosts ", fault_name(p->fault), p->victim, p->ranks,
           p->threads ? "threads" : "processes");
    for (int i = 0; i < p->ranks; i++) printf("%d", p->host[i]);
    printf(", %d us into operation %d of %d, time-out %d ms%s%s", p->delay_us, p->at_operation,
           p->operations, (int)p->timeout_ms, p->tcp_store ? ", TCP store" : "",
           p->join_again ? ", join again" : "");
}
