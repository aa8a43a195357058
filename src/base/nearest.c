/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include <string.h>

#define NAME_MAX_LENGTH 64

static int edit_distance(const char *a, const char *b)
{
    int row[NAME_MAX_LENGTH + 1], n = (int)strlen(b);
    if (n > NAME_MAX_LENGTH) return n;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; *a; a++, i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = diagonal + (*a != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

const char *ts_nearest(const char *text, const char *const *names, int n)
{
    const char *best = NULL;
    int least = (int)strlen(text) / 3 + 2;
    for (int i = 0; i < n; i++) {
        int distance = edit_distance(text, names[i]);
        if (distance < least) {
            least = distance;
            best = names[i];
        }
    }
    return best;
}
