/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"

#define NAME_MAX_LENGTH 64

typedef struct parser {
    const ts_command *command;
    char *values;
    int argc;
    char **argv;
    int next;
} parser;

int ts_usage_error(const ts_command *command, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "tessera %s: ", command->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nSee: tessera help %s\n", command->name);
    return TS_EXIT_USAGE;
}

static int unknown_option(const parser *p, const char *text)
{
    const char *names[128];
    int n = 0;
    for (const ts_opt *o = p->command->options; o && o->name && n < 127; o++) names[n++] = o->name;
    names[n++] = "help";
    const char *near = ts_nearest(text + strspn(text, "-"), names, n);
    if (near)
        ts_usage_error(p->command, "unknown option %s; did you mean --%s?", text, near);
    else
        ts_usage_error(p->command, "unknown option %s", text);
    return -1;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool in_choices(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (const char *c = choices; c; c = strchr(c, '|')) {
        if (*c == '|') c++;
        if (strncmp(c, text, length) == 0 && (c[length] == '|' || !c[length])) return length > 0;
    }
    return false;
}

static int bad_value(const parser *p, const ts_opt *o, const char *text)
{
    if (o->choices)
        ts_usage_error(p->command, "--%s is one of %s, not '%s'", o->name, o->choices, text);
    else if (o->min < o->max)
        ts_usage_error(p->command, "--%s is %s number from %.15g to %.15g, not '%s'", o->name,
                       o->kind == TS_OPT_INT ? "a whole" : "a", o->min, o->max, text);
    else
        ts_usage_error(p->command, "--%s is a number, not '%s'", o->name, text);
    return -1;
}

static int set_number(const parser *p, const ts_opt *o, const char *text)
{
    char *end;
    errno = 0;
    double real = strtod(text, &end);
    bool good = !errno && end != text && !*end && real == real;
    if (o->kind == TS_OPT_INT) {
        long long whole = strtoll(text, &end, 10);
        good = !errno && end != text && !*end;
        real = (double)whole;
        if (good) memcpy(p->values + o->offset, &whole, sizeof whole);
    } else {
        memcpy(p->values + o->offset, &real, sizeof real);
    }
    if (!good || (o->min < o->max && (real < o->min || real > o->max)))
        return bad_value(p, o, text);
    return 0;
}

static int set_value(const parser *p, const ts_opt *o, const char *text)
{
    if (o->kind == TS_OPT_FLAG) {
        *(bool *)(p->values + o->offset) = strcmp(text, "0") != 0;
    } else if (o->kind == TS_OPT_TEXT) {
        if (o->choices && !in_choices(o->choices, text)) return bad_value(p, o, text);
        *(const char **)(p->values + o->offset) = text;
    } else if (o->kind == TS_OPT_LIST) {
        ts_text_list *list = (ts_text_list *)(p->values + o->offset);
        const char **items = realloc(list->item, ((size_t)list->count + 1) * sizeof *items);
        if (!items) return ts_usage_error(p->command, "out of memory"), -1;
        list->item = items;
        list->item[list->count++] = text;
    } else {
        return set_number(p, o, text);
    }
    return 0;
}

/* The variable that replaces a default: PET_NPROC_PER_NODE. */
static const char *from_environment(const ts_command *command, const ts_opt *o)
{
    char name[NAME_MAX_LENGTH + 16];
    if (!command->env_prefix) return NULL;
    snprintf(name, sizeof name, "%s%s", command->env_prefix, o->name);
    for (char *c = name; *c; c++) *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static int set_defaults(const parser *p)
{
    for (const ts_opt *o = p->command->options; o && o->name; o++) {
        const char *text = from_environment(p->command, o);
        if (!text) text = o->def;
        if (text && o->kind != TS_OPT_LIST && set_value(p, o, text) != 0) return -1;
    }
    return 0;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool same_name(const char *name, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] != text[i] && !(name[i] == '-' && text[i] == '_')) return false;
    return name[length] == 0;
}

/* Finds the option of "--name", "--name=value", "-n", "-n4"; *value: what is attached, or NULL. */
static const ts_opt *find_option(const ts_command *command, const char *text, const char **value)
{
    bool is_long = text[1] == '-';
    size_t length = is_long ? strcspn(text + 2, "=") : 1;
    *value = is_long ? (text[2 + length] ? text + 3 + length : NULL) : (text[2] ? text + 2 : NULL);
    for (const ts_opt *o = command->options; o && o->name; o++)
        if (is_long ? same_name(o->name, text + 2, length) : o->letter && o->letter == text[1])
            return o;
    return NULL;
}

/* "-0.5" is a value, "-x" an option. */
static bool looks_like_option(const char *text)
{
    return text[0] == '-' && text[1] && !isdigit((unsigned char)text[1]) && text[1] != '.';
}

static int take_list(parser *p, const ts_opt *o)
{
    int taken = 0;
    while (p->next < p->argc && !looks_like_option(p->argv[p->next])) {
        if (set_value(p, o, p->argv[p->next++]) != 0) return -1;
        taken++;
    }
    if (taken) return 0;
    ts_usage_error(p->command, "--%s needs an argument (%s)", o->name, o->arg);
    return -1;
}

static int take_option(parser *p)
{
    const char *text = p->argv[p->next], *value;
    const ts_opt *o = find_option(p->command, text, &value);
    if (!o) return unknown_option(p, text);
    if (!o->help) {
        ts_usage_error(p->command, "--%s is not offered yet by this version", o->name);
        return -1;
    }
    p->next++;
    if (o->kind == TS_OPT_FLAG && value && text[1] != '-') return unknown_option(p, text);
    if (o->kind == TS_OPT_FLAG) return set_value(p, o, value ? value : "1");
    if (value) return set_value(p, o, value);
    if (o->kind == TS_OPT_LIST) return take_list(p, o);
    if (p->next >= p->argc) {
        ts_usage_error(p->command, "--%s needs an argument (%s)", o->name, o->arg);
        return -1;
    }
    return set_value(p, o, p->argv[p->next++]);
}

int ts_options_parse(const ts_command *command, void *values, int argc, char **argv)
{
    parser p = {command, values, argc, argv, 0};
    memset(values, 0, command->values_size);
    if (set_defaults(&p) != 0) return -1;
    while (p.next < argc && argv[p.next][0] == '-' && argv[p.next][1]) {
        const char *text = argv[p.next];
        if (strcmp(text, "--") == 0) return p.next + 1;
        if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
            ts_command_help(command, stdout);
            return -2;
        }
        if (take_option(&p) != 0) return -1;
    }
    if (p.next < argc && !command->operands) {
        ts_usage_error(command, "unexpected argument '%s'", argv[p.next]);
        return -1;
    }
    return p.next;
}
