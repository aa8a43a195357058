/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance.h"

#include <stdarg.h>
#include <string.h>

enum { MOST_REPORTS = 10 };

void conf_fail(conf *c, int line, const char *format, ...)
{
    va_list args;
    if (c->failures++ >= MOST_REPORTS) return;
    va_start(args, format);
    fprintf(stderr, "rank %d of %d, %s, line %d: ", c->rank, c->size, c->name, line);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
}

void conf_fails(conf *c, int line, const char *what, ts_status got, ts_status wanted,
                const char *needle)
{
    if (c->flags & CONF_FAKE && wanted != TS_EDTYPE) return;
    if (got == wanted && strstr(ts_error_last(), needle)) return;
    conf_fail(c, line, "%s gives %s (%s), not %s with \"%s\"", what, ts_status_name(got),
              got == TS_OK ? "" : ts_error_last(), ts_status_name(wanted), needle);
}

static void run(conf *c, const conf_case *cases, const char *filter)
{
    for (; cases->name; cases++) {
        if (filter && !strstr(cases->name, filter)) continue;
        if (c->size < cases->least || (cases->most && c->size > cases->most)) continue;
        c->name = cases->name;
        ts_scope scope = ts_scope_begin();
        cases->run(c);
        ts_scope_end(scope);
    }
}

int ts_conformance(ts_group *group, const char *filter, unsigned flags)
{
    conf c = {
        .group = group, .rank = ts_group_rank(group), .size = ts_group_size(group), .flags = flags};
    if (flags & CONF_LARGE) {
        run(&c, conf_large, filter);
        return c.failures;
    }
    run(&c, conf_known, filter);
    run(&c, conf_moving, filter);
    run(&c, conf_reducing, filter);
    run(&c, conf_several, filter);
    if (!(flags & CONF_NO_MESSAGES)) run(&c, conf_messages, filter);
    if (!(flags & CONF_FAKE)) run(&c, conf_wrong, filter);
    return c.failures;
}

int ts_conformance_with_subgroup(const char *filter, unsigned flags)
{
    enum { MOST = 64 };
    int failures = ts_conformance(NULL, filter, flags), ranks[MOST], n = ts_world_size() - 1;
    ts_group *group;
    if (n < 2 || n > MOST) return failures;
    for (int q = 0; q < n; q++) ranks[q] = q;
    if (ts_new_group(&group, ranks, n, NULL) != TS_OK) {
        fprintf(stderr, "rank %d: no group: %s\n", ts_rank(), ts_error_last());
        return failures + 1;
    }
    if (ts_is_member(group)) failures += ts_conformance(group, filter, flags);
    return failures;
}
