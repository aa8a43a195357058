/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what the ranks met is what they should have met. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"

/* What a machine under load adds to any time. */
#define SLACK_NS 1000000000
#define LOSS_NS 1000000000

/* "rank 3", "ranks 1, 3", "one or more of 0, 1, 3" */
static bool names_rank(const char *text, int rank)
{
    static const char *const before[] = {"rank ", "ranks ", "one or more of ", "no longer: "};
    for (int i = 0; i < 4; i++)
        for (const char *at = text; (at = strstr(at, before[i]));) {
            at += strlen(before[i]);
            for (const char *c = at; isdigit((unsigned char)*c); c += strspn(c, ", -and"))
                if ((int)strtol(c, (char **)&c, 10) == rank) return true;
        }
    return false;
}

static bool by_timeout(fault f)
{
    return f == FAULT_LATE || f == FAULT_FREEZE || f == FAULT_THAW || f == FAULT_CUT;
}

/* Time-outs come in a chain: who waits for data of the victim is late itself for others, and stands
 * for it. */
static bool is_held_up(const plan *p, const seat *s, const seat *reader)
{
    if (s->status == TS_OK || s == reader) return false;
    if (by_timeout(p->fault) && strstr(reader->name, "message")) return true;
    if (p->fault == FAULT_LEAVE) return strstr(s->text, "receive from any rank");
    if (!by_timeout(p->fault)) return false;
    return strstr(s->name, "message") || strstr(s->name, "group") ||
           strstr(s->text, "collective channel");
}

/* A host that is cut off is as one culprit: all of it, or for itself all others. */
static bool names_culprit(const plan *p, const board *b, int reader)
{
    const char *text = b->seat[reader].text;
    if (by_timeout(p->fault) && strstr(text, "receive from any rank")) return true;
    for (int i = 0; i < p->ranks; i++)
        if (is_held_up(p, &b->seat[i], &b->seat[reader]) && names_rank(text, i)) return true;
    if (p->fault != FAULT_CUT) return reader == p->victim || names_rank(text, p->victim);
    for (int i = 0; i < p->ranks; i++) {
        bool cut_off = p->host[i] == p->host[p->victim];
        if (cut_off != (p->host[reader] == p->host[p->victim]) && names_rank(text, i)) return true;
    }
    return false;
}

typedef struct verdict {
    const plan *plan;
    const board *board;
    int found;
} verdict;

static void blame(verdict *v, int rank, const char *what)
{
    const seat *s = &v->board->seat[rank];
    double after = (double)(s->ended_ns - v->board->fault_ns) * 1e-9;
    double took = (double)(s->ended_ns - s->began_ns) * 1e-9;
    printf("  rank %d: %s; operation %d (%s) took %.3f s, ended %.3f s after the fault: %s: %s\n",
           rank, what, s->operation, s->name, took, after, ts_status_name(s->status), s->text);
    v->found++;
}

/* Where one has left, a receive from any rank may be meant for the others: it waits to the end of its
 * time, and so does who waits for a message of that rank. */
static bool waited_for_any(const verdict *v)
{
    bool any = false;
    for (int i = 0; i < v->plan->ranks; i++)
        any |= strstr(v->board->seat[i].text, "receive from any rank") != NULL;
    return any && v->plan->fault == FAULT_LEAVE;
}

/* The error came soon enough after the fault, or after the operation that met it began. */
static bool in_time(const verdict *v, const seat *s, int rank)
{
    int64_t from = v->board->fault_ns;
    if (rank == v->plan->victim && v->board->thawed_ns) from = v->board->thawed_ns;
    if (s->began_ns > from) from = s->began_ns;
    bool waits = by_timeout(v->plan->fault) || waited_for_any(v);
    int64_t limit = waits ? v->plan->timeout_ms * 1000000 : LOSS_NS;
    if (strcmp(s->name, "monitored_barrier") == 0) limit += (int64_t)MONITORED_GRACE_MS * 1000000;
    return s->ended_ns - from <= limit + SLACK_NS;
}

static void judge_survivor(verdict *v, int rank)
{
    const plan *p = v->plan;
    const seat *s = &v->board->seat[rank];
    bool fatal = fault_flags(p->fault) & FATAL;
    if (!s->ended_well) blame(v, rank, "its process ended badly");
    if (s->complaint[0]) blame(v, rank, s->complaint);
    if (s->progress != SEAT_DONE) blame(v, rank, "did not come to its end");
    if (p->fault == FAULT_LEAVE && rank == p->victim) return;
    if (s->status == TS_OK && fatal) blame(v, rank, "met no error");
    if (s->status == TS_OK) return;
    if (!ts_status_is(s->status, TS_EDIST)) blame(v, rank, "met an error of the wrong kind");
    if (!fatal && p->fault != FAULT_SHUT) blame(v, rank, "met an error");
    if (fatal && !in_time(v, s, rank)) blame(v, rank, "met the error late");
    if (fatal && !names_culprit(p, v->board, rank))
        blame(v, rank, "the error does not name the culprit");
}

/* A closed socket that mattered breaks the group for all, but those that are through already. */
static void judge_shut(verdict *v)
{
    int failed = 0;
    for (int i = 0; i < v->plan->ranks; i++) {
        const seat *s = &v->board->seat[i];
        if (s->status != TS_OK && s->operation >= v->plan->operations - 2) return;
        failed += s->status != TS_OK;
    }
    if (failed > 0 && failed < v->plan->ranks) blame(v, 0, "only some ranks met an error");
}

int judge(const plan *p, const board *b)
{
    verdict v = {p, b, 0};
    for (int i = 0; i < p->ranks; i++) {
        bool gone = p->fault == FAULT_KILL || p->fault == FAULT_EXIT || p->fault == FAULT_FREEZE;
        if (i != p->victim || !gone) judge_survivor(&v, i);
    }
    if (p->fault == FAULT_SHUT) judge_shut(&v);
    return v.found;
}
