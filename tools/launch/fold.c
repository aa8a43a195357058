/* SPDX-License-Identifier: Apache-2.0 */
/* When one cause ends several ranks, each reports it.  The console shows such a report once, and at
 * the end who else had it; log files have them all. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "launch_impl.h"

/* What follows "[rank3] " in a line that ends with a status, "(TS_ENETWORK)": false for others. */
static bool is_report(char *out, size_t size, const char *line, size_t length)
{
    static const char begin[] = "[rank";
    while (length > 0 && isspace((unsigned char)line[length - 1])) length--;
    if (length <= sizeof begin || strncmp(line, begin, sizeof begin - 1) != 0) return false;
    const char *end = line + length, *text = memchr(line, ' ', length), *status = end;
    while (status > line && *status != '(') status--;
    if (!text || end[-1] != ')' || end - status < 6 || strncmp(status, "(TS_E", 5) != 0)
        return false;
    snprintf(out, size, "%.*s", (int)(end - text - 1), text + 1);
    return true;
}

bool launch_fold_hides(launch *job, int rank, const char *line, size_t length)
{
    char text[sizeof job->fold[0].text];
    if (!is_report(text, sizeof text, line, length)) return false;
    for (int i = 0; i < job->folds; i++) {
        launch_fold *f = &job->fold[i];
        if (strcmp(f->text, text) != 0) continue;
        size_t used = strlen(f->ranks);
        if (used + 16 < sizeof f->ranks)
            snprintf(f->ranks + used, sizeof f->ranks - used, "%s%d", used ? ", " : "", rank);
        else if (f->ranks[used - 1] != '.')
            snprintf(f->ranks + used, sizeof f->ranks - used, ", ...");
        f->count++;
        return true;
    }
    if (job->folds == LAUNCH_FOLDS) return false;
    job->fold[job->folds++] = (launch_fold){.count = 0};
    snprintf(job->fold[job->folds - 1].text, sizeof text, "%s", text);
    return false;
}

void launch_fold_tell(launch *job)
{
    for (int i = 0; i < job->folds; i++)
        if (job->fold[i].count > 0)
            launch_say(job, "%d other rank(s) reported the same: %s", job->fold[i].count,
                       job->fold[i].ranks);
    job->folds = 0;
}
