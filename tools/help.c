/* SPDX-License-Identifier: Apache-2.0 */
/* Help texts and manual pages, made from the tables of the commands. */
#include <stdlib.h>
#include <string.h>
#include <tessera/version.h>

#include "base/settings.h"
#include "commands.h"

#define WIDTH 90

/* Prints text in lines of at most WIDTH, each behind indent blanks; column: where the first begins.
 */
static void print_wrapped(FILE *to, const char *text, int indent, int column)
{
    while (*text) {
        int room = WIDTH - (column > indent ? column : indent);
        int length = (int)strcspn(text, "\n");
        if (length > room) {
            int cut = room;
            while (cut > 0 && text[cut] != ' ') cut--;
            length = cut > 0 ? cut : length;
        }
        fprintf(to, "%*s%.*s\n", column < indent ? indent - column : 0, "", length, text);
        text += length;
        if (*text == ' ' || *text == '\n') text++;
        column = 0;
    }
}

static void option_text(char *out, size_t size, const ts_opt *o)
{
    char letter[8] = "    ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(out, size, "  %s--%s%s%s", letter, o->name, o->arg ? " " : "", o->arg ? o->arg : "");
}

static void help_of(char *out, size_t size, const ts_opt *o)
{
    snprintf(out, size, "%s%s%s%s", o->help, o->def ? " [" : "", o->def ? o->def : "",
             o->def ? "]" : "");
}

void ts_command_help(const ts_command *command, FILE *to)
{
    char text[256], help[1024];
    fprintf(to, "usage: tessera %s%s%s%s\n\n", command->name, command->options ? " [options]" : "",
            command->operands ? " " : "", command->operands ? command->operands : "");
    print_wrapped(to, command->summary, 0, 0);
    if (command->about) fprintf(to, "\n"), print_wrapped(to, command->about, 0, 0);
    if (command->options) fprintf(to, "\nOptions:\n");
    for (const ts_opt *o = command->options; o && o->name; o++) {
        if (!o->help) continue;
        option_text(text, sizeof text, o);
        help_of(help, sizeof help, o);
        fprintf(to, "%s", text);
        int column = (int)strlen(text);
        if (column > 34) fprintf(to, "\n"), column = 0;
        print_wrapped(to, help, 36, column);
    }
    fprintf(to, "      --help%*sShow this text.\n", 24, "");
    if (command->env_prefix)
        fprintf(to, "\nDefaults are read from the environment: --foo-bar from %sFOO_BAR.\n",
                command->env_prefix);
}

/* ---- manual pages ---------------------------------------------------------------------------- */

/* Text with roff's special characters escaped. */
static void print_roff(FILE *to, const char *text)
{
    bool line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\'')) fputs("\\&", to);
        if (*text == '-' || *text == '\\') fputc('\\', to);
        fputc(*text, to);
        if (*text == '\\') fputc('e', to);
        line_start = *text == '\n';
    }
}

void ts_command_man(const ts_command *command, FILE *to)
{
    char help[1024];
    fprintf(to, ".TH TESSERA 1 \"\" \"tessera %s\"\n.SH NAME\ntessera %s \\- ", TS_VERSION_STRING,
            command->name);
    print_roff(to, command->summary);
    fprintf(to, "\n.SH SYNOPSIS\n.B tessera %s\n", command->name);
    if (command->options) fprintf(to, "[options]\n");
    if (command->operands) print_roff(to, command->operands), fputc('\n', to);
    if (command->about) {
        fprintf(to, ".SH DESCRIPTION\n");
        print_roff(to, command->about);
        fputc('\n', to);
    }
    if (command->options) fprintf(to, ".SH OPTIONS\n");
    for (const ts_opt *o = command->options; o && o->name; o++) {
        if (!o->help) continue;
        fprintf(to, ".TP\n.B ");
        if (o->letter) fprintf(to, "\\-%c, ", o->letter);
        print_roff(to, "--");
        print_roff(to, o->name);
        if (o->arg) fprintf(to, " \\fI"), print_roff(to, o->arg), fprintf(to, "\\fR");
        fputc('\n', to);
        help_of(help, sizeof help, o);
        print_roff(to, help);
        fputc('\n', to);
    }
}

/* ---- tessera help ---------------------------------------------------------------------------- */

typedef struct help_values {
    bool man, list;
} help_values;

static const ts_opt help_options[] = {{"man", 0, TS_OPT_FLAG, offsetof(help_values, man), NULL,
                                       NULL, "Print a manual page in roff instead.", 0, 0, NULL},
                                      {"list", 0, TS_OPT_FLAG, offsetof(help_values, list), NULL,
                                       NULL, "Print the names of all commands, one a line.", 0, 0,
                                       NULL},
                                      {NULL, 0, TS_OPT_FLAG, 0, NULL, NULL, NULL, 0, 0, NULL}};

void ts_print_overview(FILE *to)
{
    fprintf(to, "usage: tessera COMMAND [options]\n\n"
                "Trains neural networks on many processes.\n\nCommands:\n");
    for (int i = 0; ts_commands[i]; i++)
        fprintf(to, "  %-13s %s\n", ts_commands[i]->name, ts_commands[i]->summary);
    fprintf(to, "\nMore: tessera help COMMAND, or COMMAND --help.\n"
                "Settings by environment variables: tessera info --settings.\n");
}

static int help_run(void *values, int argc, char **argv)
{
    const help_values *v = values;
    int used;
    if (v->list) {
        for (int i = 0; ts_commands[i]; i++) printf("%s\n", ts_commands[i]->name);
        return TS_EXIT_OK;
    }
    if (argc == 0) {
        ts_print_overview(stdout);
        return TS_EXIT_OK;
    }
    const ts_command *command = ts_command_find(argc, argv, &used);
    if (!command && argc == 1 && ts_command_print_family(argv[0], stdout)) return TS_EXIT_OK;
    if (!command) return ts_command_unknown(argc, argv);
    (v->man ? ts_command_man : ts_command_help)(command, stdout);
    return TS_EXIT_OK;
}

const ts_command ts_command_help_command = {
    .name = "help",
    .summary = "Explain a command.",
    .operands = "[COMMAND]",
    .options = help_options,
    .values_size = sizeof(help_values),
    .run = help_run,
};
