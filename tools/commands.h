/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the program. */
#ifndef TS_TOOLS_COMMANDS_H
#define TS_TOOLS_COMMANDS_H

#include "options.h"

extern const ts_command ts_command_run, ts_command_train_gpt, ts_command_bench_coll,
    ts_command_bench_train, ts_command_bench_start, ts_command_bench_store, ts_command_doctor,
    ts_command_info, ts_command_help_command;

extern const ts_command *const ts_commands[]; /* ends with NULL */

/* The command that argv begins with; *used: how many words its name has.  NULL: none. */
const ts_command *ts_command_find(int argc, char **argv, int *used);
/* Reports that argv names no command, with the nearest one; returns TS_EXIT_USAGE. */
int ts_command_unknown(int argc, char **argv);
/* Lists the commands whose first of several words is word; false: there are none. */
bool ts_command_print_family(const char *word, FILE *to);

void ts_print_overview(FILE *to);

#endif
