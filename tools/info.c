/* SPDX-License-Identifier: Apache-2.0 */
/* tessera info: version, how it was built, what this machine offers, settings. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <tessera/tessera.h>

#include "base/settings.h"
#include "base/thread.h"
#include "comm/backends.h"
#include "commands.h"
#include "json.h"
#include "kernels/isa.h"

typedef struct info_values {
    bool settings, json;
} info_values;

static const ts_opt info_options[] = {
    {"settings", 0, TS_OPT_FLAG, offsetof(info_values, settings), NULL, NULL,
     "List the environment variables with value in force, default and meaning.", 0, 0, NULL},
    {"json", 0, TS_OPT_FLAG, offsetof(info_values, json), NULL, NULL, "One JSON object per line.",
     0, 0, NULL},
    {NULL, 0, TS_OPT_FLAG, 0, NULL, NULL, NULL, 0, 0, NULL}};

static void print_settings(bool as_json)
{
    const ts_setting_info *s;
    for (int i = 0; (s = ts_setting_describe(i)); i++) {
        const char *value = ts_setting_string((ts_setting)i);
        if (i == TS_SETTING_SECRET && *value) value = "(not shown)";
        if (as_json) {
            ts_json json = ts_json_begin(stdout);
            ts_json_text(&json, "name", s->variable);
            ts_json_text(&json, "kind", s->kind);
            ts_json_text(&json, "default", s->def);
            ts_json_text(&json, "value", value);
            ts_json_text(&json, "help", s->help);
            ts_json_end(&json);
            continue;
        }
        printf("%s=%s", s->variable, value);
        if (strcmp(value, s->def) != 0) printf("   (default: %s)", *s->def ? s->def : "empty");
        printf("\n    %s\n", s->help);
    }
}

static const char *compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

/* What is built where its packages are installed: those that load, and what the others are for. */
static const struct plugin {
    const char *name, *what;
} plugins[] = {
    {"mpi_openmpi", "backend mpi with Open MPI; Debian: libopenmpi-dev openmpi-bin"},
    {"mpi_mpich", "backend mpi with MPICH; Debian: libmpich-dev mpich"},
    {"pmix", "run --mpi openmpi; Debian: libpmix-dev"},
};
enum { NUM_PLUGINS = sizeof plugins / sizeof *plugins };

static bool plugin_loads(const struct plugin *p)
{
    char file[64];
    void *handle;
    snprintf(file, sizeof file, "libtessera_%s.so", p->name);
    return ts_plugin_open(&handle, file) == TS_OK;
}

static void list_plugins(char *out, size_t size)
{
    *out = '\0';
    for (int i = 0; i < NUM_PLUGINS; i++)
        if (plugin_loads(&plugins[i]))
            snprintf(out + strlen(out), size - strlen(out), "%s%s", *out ? " " : "",
                     plugins[i].name);
}

static void print_missing(void)
{
    for (int i = 0; i < NUM_PLUGINS; i++)
        if (!plugin_loads(&plugins[i]))
            printf("  without   %s: %s\n", plugins[i].name, plugins[i].what);
}

static int info_run(void *values, int argc, char **argv)
{
    static const char *const backends[] = {"native", "mpi", "fake", "nccl", "ucc", "xccl"};
    const info_values *v = values;
    char list[64] = "", loaded[64];
    struct utsname host;
    (void)argc, (void)argv;
    if (v->settings) {
        print_settings(v->json);
        return TS_EXIT_OK;
    }
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (ts_is_backend_available(backends[i]))
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? " " : "",
                     backends[i]);
    list_plugins(loaded, sizeof loaded);
    uname(&host);
    const char *isa = ts_isa_name(ts_isa_in_use());
    if (v->json) {
        ts_json json = ts_json_begin(stdout);
        ts_json_text(&json, "version", ts_version());
        ts_json_text(&json, "compiler", compiler());
        ts_json_text(&json, "isa", isa);
        ts_json_text(&json, "backends", list);
        ts_json_text(&json, "plugins", loaded);
        ts_json_int(&json, "cores", ts_cores());
        ts_json_int(&json, "threads", ts_num_threads());
        ts_json_text(&json, "system", host.release);
        ts_json_text(&json, "machine", host.machine);
        ts_json_end(&json);
        return TS_EXIT_OK;
    }
    printf("tessera %s\n  compiler  %s\n  kernels   %s\n  backends  %s\n  plug-ins  %s\n"
           "  cores     %d (%d threads)\n  system    %s %s %s\n",
           ts_version(), compiler(), isa, list, *loaded ? loaded : "none", ts_cores(),
           ts_num_threads(), host.sysname, host.release, host.machine);
    print_missing();
    return TS_EXIT_OK;
}

const ts_command ts_command_info = {
    .name = "info",
    .summary = "Show version, build, backends, and the settings with defaults and help.",
    .options = info_options,
    .values_size = sizeof(info_values),
    .run = info_run,
};
