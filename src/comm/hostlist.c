/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of hosts in Slurm's notation: names with commas between, numbers in brackets. */
#include <stdio.h>
#include <string.h>

#include "comm/environment.h"

enum { NAME_MAX_BYTES = 256, MOST_DIGITS = 9 };

typedef struct walk {
    char name[NAME_MAX_BYTES];
    int left; /* hosts to pass over */
    bool found, wrong;
} walk;

static bool over(const walk *w) { return w->found || w->wrong; }

static void expand(walk *w, size_t used, const char *text, size_t length);

/* "03" of "01-03": how many digits there are; 0: none, or too many. */
static int read_number(long *out, const char *text, const char *end)
{
    int digits = 0;
    *out = 0;
    while (text + digits < end && text[digits] >= '0' && text[digits] <= '9') {
        if (digits == MOST_DIGITS) return 0;
        *out = 10 * *out + (text[digits++] - '0');
    }
    return digits;
}

/* "7" or "01-03", each put behind the name so far and before the rest. */
static void expand_range(walk *w, size_t used, const char *range, const char *end, const char *rest,
                         size_t rest_length)
{
    long first, last;
    int width = read_number(&first, range, end);
    const char *at = range + width;
    last = first;
    if (width && at < end && *at == '-') {
        int more = read_number(&last, at + 1, end);
        at = more ? at + 1 + more : range;
    }
    w->wrong = !width || at != end || last < first;
    for (long n = first; n <= last && !over(w); n++) {
        int digits = snprintf(w->name + used, sizeof w->name - used, "%0*ld", width, n);
        if (used + (size_t)digits >= sizeof w->name)
            w->wrong = true;
        else
            expand(w, used + (size_t)digits, rest, rest_length);
    }
}

static void expand_brackets(walk *w, size_t used, const char *text, size_t length)
{
    const char *close = memchr(text, ']', length);
    if (!close) {
        w->wrong = true;
        return;
    }
    for (const char *range = text + 1; range <= close && !over(w);) {
        const char *comma = memchr(range, ',', (size_t)(close - range));
        const char *end = comma ? comma : close;
        expand_range(w, used, range, end, close + 1, (size_t)(text + length - close - 1));
        range = end + 1;
    }
}

/* One item of the list, or what is left of it behind the first used bytes of the name. */
static void expand(walk *w, size_t used, const char *text, size_t length)
{
    const char *open = memchr(text, '[', length);
    size_t plain = open ? (size_t)(open - text) : length;
    if (used + plain >= sizeof w->name) {
        w->wrong = true;
        return;
    }
    memcpy(w->name + used, text, plain);
    w->name[used + plain] = '\0';
    if (open)
        expand_brackets(w, used + plain, open, length - plain);
    else if (used + plain == 0)
        w->wrong = true;
    else
        w->found = w->left-- == 0;
}

static size_t item_length(const char *list)
{
    bool inside = false;
    size_t n = 0;
    for (; list[n] && (inside || list[n] != ','); n++)
        inside = list[n] == '[' || (inside && list[n] != ']');
    return n;
}

bool ts_host_list_get(char *out, size_t size, const char *list, int index)
{
    walk w = {.left = index};
    while (*list && !over(&w)) {
        size_t length = item_length(list);
        expand(&w, 0, list, length);
        list += length + (list[length] == ',');
    }
    if (!w.found || w.wrong || strlen(w.name) >= size) return false;
    memcpy(out, w.name, strlen(w.name) + 1);
    return true;
}
