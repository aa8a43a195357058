/* SPDX-License-Identifier: Apache-2.0 */
/* tessera COMMAND [options]: finds the command and hands over. */
#include <stdlib.h>
#include <string.h>
#include <tessera/version.h>

#include "base/nearest.h"
#include "base/settings.h"
#include "commands.h"
#include "launch/launch.h"

const ts_command *const ts_commands[] = {&ts_command_run,          &ts_command_train_gpt,
                                         &ts_command_bench_coll,   &ts_command_bench_train,
                                         &ts_command_bench_start,  &ts_command_bench_store,
                                         &ts_command_doctor,       &ts_command_info,
                                         &ts_command_help_command, NULL};

/* Names that are taken by commands of later versions. */
static const char *const later_commands[] = {"ckpt", "plan", "bench ops", "bench ckpt", NULL};

/* Number of words of name if argv begins with them, else 0. */
static int words_match(const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        size_t length = strcspn(name, " ");
        if (strlen(argv[i]) != length || strncmp(name, argv[i], length) != 0) return 0;
        if (!name[length]) return i + 1;
        name += length + 1;
    }
    return 0;
}

const ts_command *ts_command_find(int argc, char **argv, int *used)
{
    for (int i = 0; ts_commands[i]; i++)
        if ((*used = words_match(ts_commands[i]->name, argc, argv)) > 0) return ts_commands[i];
    return NULL;
}

/* Counts, and lists unless to is NULL, the commands whose name begins with the word, as "train gpt"
 * does with "train". */
static int list_family(const char *word, FILE *to)
{
    int found = 0;
    size_t length = strlen(word);
    for (int i = 0; ts_commands[i]; i++)
        if (strncmp(ts_commands[i]->name, word, length) == 0 &&
            ts_commands[i]->name[length] == ' ') {
            found++;
            if (to)
                fprintf(to, "  tessera %-13s %s\n", ts_commands[i]->name, ts_commands[i]->summary);
        }
    return found;
}

bool ts_command_print_family(const char *word, FILE *to)
{
    if (!list_family(word, NULL)) return false;
    fprintf(to, "Commands of tessera %s:\n", word);
    list_family(word, to);
    fprintf(to, "\nMore: tessera help COMMAND, or COMMAND --help.\n");
    return true;
}

static const char *find_later(int argc, char **argv)
{
    for (int i = 0; later_commands[i]; i++)
        if (words_match(later_commands[i], argc, argv) > 0) return later_commands[i];
    return NULL;
}

int ts_command_unknown(int argc, char **argv)
{
    const char *names[sizeof ts_commands / sizeof *ts_commands], *later = find_later(argc, argv);
    char text[128];
    int n = 0;
    if (later) {
        fprintf(stderr, "tessera %s is not offered yet by this version\nSee: tessera help\n",
                later);
        return TS_EXIT_USAGE;
    }
    if (list_family(argv[0], NULL)) {
        if (argc > 1)
            fprintf(stderr, "tessera %s: there is no '%s'; which one?\n", argv[0], argv[1]);
        else
            fprintf(stderr, "tessera %s: which one?\n", argv[0]);
        list_family(argv[0], stderr);
        return TS_EXIT_USAGE;
    }
    snprintf(text, sizeof text, "%s%s%s", argv[0], argc > 1 && argv[1][0] != '-' ? " " : "",
             argc > 1 && argv[1][0] != '-' ? argv[1] : "");
    for (; ts_commands[n]; n++) names[n] = ts_commands[n]->name;
    const char *near = ts_nearest(text, names, n);
    if (!near) near = ts_nearest(argv[0], names, n);
    fprintf(stderr, "tessera: unknown command '%s'%s%s%s\nSee: tessera help\n", argv[0],
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return TS_EXIT_USAGE;
}

static int run_command(const ts_command *command, int argc, char **argv)
{
    void *values = calloc(1, command->values_size ? command->values_size : 1);
    if (!values) return TS_EXIT_FAILURE;
    int used = ts_options_parse(command, values, argc, argv), status = TS_EXIT_OK;
    if (used == -1) status = TS_EXIT_USAGE;
    if (used >= 0) status = command->run(values, argc - used, argv + used);
    for (const ts_opt *o = command->options; o && o->name; o++)
        if (o->kind == TS_OPT_LIST)
            free(((ts_text_list *)(void *)((char *)values + o->offset))->item);
    free(values);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == TS_EXIT_OK) {
        perror("tessera: writing the output");
        status = TS_EXIT_FAILURE;
    }
    return status;
}

int main(int argc, char **argv)
{
    int used;
    ts_launch_remember(argv);
    if (argc < 2) {
        ts_print_overview(stderr);
        return TS_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tessera %s\n", ts_version());
        return TS_EXIT_OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        ts_print_overview(stdout);
        return TS_EXIT_OK;
    }
    const ts_command *command = ts_command_find(argc - 1, argv + 1, &used);
    if (!command && argc == 3 && strcmp(argv[2], "--help") == 0 &&
        ts_command_print_family(argv[1], stdout))
        return TS_EXIT_OK;
    if (!command) return ts_command_unknown(argc - 1, argv + 1);
    /* Ranks look when they join; the launcher leaves it to them. */
    if (command != &ts_command_run && !ts_launched()) ts_settings_check_names();
    return run_command(command, argc - 1 - used, argv + 1 + used);
}
