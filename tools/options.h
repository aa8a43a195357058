/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and their options.  An option is declared once: name, argument, default, help; parsing,
 * --help and the manual pages come from the same table. */
#ifndef TS_TOOLS_OPTIONS_H
#define TS_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses of the program besides those of a job. */
enum { TS_EXIT_OK = 0, TS_EXIT_FAILURE = 1, TS_EXIT_USAGE = 2 };

/* Where an option's value goes in the command's struct. */
typedef enum ts_opt_kind {
    TS_OPT_FLAG, /* bool; no argument */
    TS_OPT_INT,  /* int64_t */
    TS_OPT_REAL, /* double */
    TS_OPT_TEXT, /* const char *; NULL when not given and without default */
    TS_OPT_LIST  /* ts_text_list; takes arguments up to the next option, may be repeated */
} ts_opt_kind;

typedef struct ts_text_list {
    const char **item;
    int count;
} ts_text_list;

typedef struct ts_opt {
    const char *name; /* "nproc-per-node"; - and _ are the same */
    char letter;      /* 'n' for -n; 0: none */
    ts_opt_kind kind;
    size_t offset;
    const char *arg;     /* what --help calls the argument */
    const char *def;     /* as text; NULL: none (0, false) */
    const char *help;    /* NULL: an option of later versions; refused, and not shown */
    double min, max;     /* of numbers, checked if min < max */
    const char *choices; /* of texts: "none|ddp"; NULL: any */
} ts_opt;

typedef struct ts_command {
    const char *name;      /* "train gpt" */
    const char *summary;   /* one line */
    const char *operands;  /* "PROGRAM [ARGS...]"; NULL: takes none */
    const char *about;     /* further paragraphs of help; NULL: none */
    const ts_opt *options; /* ends with a NULL name; NULL: none */
    size_t values_size;
    const char *env_prefix; /* "PET_": variables that replace defaults; NULL: none */
    /* argv: what follows the options.  Returns the exit status. */
    int (*run)(void *values, int argc, char **argv);
} ts_command;

/* Parses argv[0..argc-1] (without program and command names) into values, which is zeroed first.
 * Returns how many arguments were consumed; the rest are operands.  On wrong usage prints it to
 * stderr and returns -1; after printing the help that --help asks for, -2. */
int ts_options_parse(const ts_command *command, void *values, int argc, char **argv);

void ts_command_help(const ts_command *command, FILE *to);
void ts_command_man(const ts_command *command, FILE *to); /* a page of section 1 */

/* Prints "tessera COMMAND: text" and where to find help; returns TS_EXIT_USAGE. */
int ts_usage_error(const ts_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
