/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of values that are of no use, for every setting; misspelt names; names in the docs. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <tessera/debug.h>

#include "base/log.h"
#include "base/settings.h"
#include "paths.h"
#include "test.h"

/* ---- values ---------------------------------------------------------------------------------- */

/* Settings of kind STRING.  A bad value makes the init of a group fail, or is warned of; both name
 * the variable.  Others take any text, or are used later. */
static const struct text_setting {
    const char *name;
    const char *bad[3];
    bool any;     /* any text is good */
    bool refused; /* init fails; else a warning */
} texts[] = {
    {"TESSERA_LOGS", {"+dpp", "comm,,foo"}, .refused = false},
    {"TESSERA_DUMP_FILE", .any = true},
    {"TESSERA_DUMP_SIGNAL", {"USR9", "-3", "9"}, .refused = false},
    {"TESSERA_DUMP_PIPE", {"/nonexistent/x"}, .refused = false},
    {"TESSERA_BLAS", .any = true}, /* the first matrix product names it */
    {"TESSERA_HOST_ID", .any = true},
    {"TESSERA_SOCKET_IFNAME", {"nosuch0", "=l"}, .refused = true},
    {"TESSERA_LISTEN_PORTS", {"5000-", "-5", "70000"}, .refused = true},
    {"TESSERA_PUBLISH_ADDRESS", {"10.0.0.1:", "[::1", "host:99999"}, .refused = true},
    {"TESSERA_PLUGIN_PATH", .any = true}, /* a plug-in that is not found names the folders */
    {"TESSERA_MPI", .any = true},         /* names a plug-in, which is looked for */
    {"TESSERA_ALGORITHM", {"fast", "all_reduce:fast", "all_reduce:ring:x"}, .refused = false},
    {"TESSERA_SECRET", {"short"}, .refused = true},
    {"TESSERA_SECRET_FILE", {"/nonexistent/file"}, .refused = true},
    {"TESSERA_RUN_ID", .any = true},
};
enum { NUM_TEXTS = sizeof texts / sizeof *texts };

typedef struct lines {
    char text[8192];
} lines;

static void take_line(ts_log_severity severity, const char *component, const char *line, void *user)
{
    lines *l = user;
    size_t used = strlen(l->text);
    (void)component;
    if (severity <= TS_SEVERITY_WARNING)
        snprintf(l->text + used, sizeof l->text - used, "%s\n", line);
}

static ts_status join_and_leave(ts_test *test)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    ts_store *store;
    static int round;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "round%d", round++);
    ts_status status = ts_prefix_store_new(&store, prefix, test->store);
    if (status != TS_OK) return status;
    opt.store = store;
    opt.rank = test->rank;
    opt.world_size = test->size;
    status = ts_init_process_group(&opt);
    if (status == TS_OK) {
        status = ts_barrier(NULL, NULL);
        ts_destroy_process_group(NULL);
    }
    ts_store_free(store);
    return status;
}

static void try_text(ts_test *test, const struct text_setting *s, const char *value)
{
    lines l = {""};
    setenv(s->name, value, 1);
    ts_set_log_sink(take_line, &l);
    ts_log_refresh();
    ts_status status = join_and_leave(test);
    ts_set_log_sink(NULL, NULL);
    const char *said = s->refused ? ts_error_last() : l.text;
    unsetenv(s->name);
    if ((status == TS_OK) != !s->refused || !strstr(said, s->name))
        ts_test_fail(test, __FILE__, __LINE__, "%s='%s': %s, '%s'", s->name, value,
                     ts_status_name(status), said);
}

TS_TEST(bad_texts_of_settings_are_named, .ranks = 2, .hosts = 2, .mode = TS_TEST_PROCESSES,
        .no_group = true)
{
    for (int i = 0; i < NUM_TEXTS; i++)
        for (int k = 0; k < 3 && texts[i].bad[k]; k++) {
            ts_test_at(test, __LINE__);
            try_text(test, &texts[i], texts[i].bad[k]);
        }
    ts_log_refresh();
}

static bool is_listed(const char *name)
{
    for (int i = 0; i < NUM_TEXTS; i++)
        if (strcmp(texts[i].name, name) == 0) return texts[i].any || texts[i].bad[0];
    return false;
}

static void try_value(ts_test *test, const char *name, const char *value)
{
    setenv(name, value, 1);
    ts_status status = ts_init_process_group(NULL);
    if (status != TS_EINVAL || !strstr(ts_error_last(), name) || !strstr(ts_error_last(), value))
        ts_test_fail(test, __FILE__, __LINE__, "%s='%s': %s", name, value, ts_error_last());
    unsetenv(name);
}

TS_TEST(bad_values_of_settings_are_refused_by_name)
{
    static const char *const numbers[] = {"much", "-4", "99999999999999999999", "1.5", " 7x", NULL};
    static const char *const words[] = {"perhaps", "2", "-", NULL};
    const ts_setting_info *s;
    for (int i = 0; (s = ts_setting_describe(i)); i++) {
        bool words_only = !strcmp(s->kind, "BOOL") || !strcmp(s->kind, "WORD");
        if (strcmp(s->kind, "STRING") == 0) {
            if (!is_listed(s->variable)) TS_FAIL_TEST("%s is not in the table", s->variable);
            continue;
        }
        for (const char *const *v = words_only ? words : numbers; *v; v++)
            try_value(test, s->variable, *v);
        setenv(s->variable, "", 1); /* as if it were not set */
        TS_PASS(ts_settings_check());
        unsetenv(s->variable);
    }
    try_value(test, "TORCH_FR_BUFFER_SIZE", "-4");
    try_value(test, "TORCH_NCCL_TRACE_BUFFER_SIZE", "many");
}

/* ---- names ----------------------------------------------------------------------------------- */

TS_TEST(misspelt_settings_are_warned_of_once)
{
    lines l = {""};
    setenv("TESSERA_TIMEOT", "5", 1);
    setenv("TESSERA_QWERTYUIOP", "5", 1);
    setenv("TESSERA_TEST_SOMETHING", "5", 1);
    setenv("TESSERA_STAGING", "4MiB", 1);
    ts_set_log_sink(take_line, &l);
    ts_settings_check_names();
    TS_EXPECT_TEXT(l.text, "TESSERA_TIMEOT is set, but there is no such setting (did you mean "
                           "TESSERA_TIMEOUT?)");
    TS_EXPECT_TEXT(l.text, "TESSERA_QWERTYUIOP is set, but there is no such setting; tessera info");
    TS_EXPECT(!strstr(l.text, "SOMETHING") && !strstr(l.text, "STAGING"));
    l.text[0] = '\0';
    ts_settings_check_names();
    TS_EXPECT_STR(l.text, "");
    ts_set_log_sink(NULL, NULL);
}

/* ---- documentation --------------------------------------------------------------------------- */

static bool is_known(const char *name, size_t length)
{
    const ts_setting_info *s;
    for (int i = 0; (s = ts_setting_describe(i)); i++)
        if (strlen(s->variable) == length && strncmp(s->variable, name, length) == 0) return true;
    return strncmp(name, "TESSERA_TEST_", 13) == 0 || strncmp(name, "TESSERA_GOLDEN_", 15) == 0;
}

static void check_page(ts_test *test, const char *path)
{
    static char text[1 << 20];
    FILE *from = fopen(path, "re");
    size_t got = from ? fread(text, 1, sizeof text - 1, from) : 0;
    if (from) fclose(from);
    text[got] = '\0';
    for (const char *at = text; (at = strstr(at, "TESSERA_"));) {
        size_t length = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        if (length > 8 && !is_known(at, length))
            ts_test_fail(test, __FILE__, __LINE__, "%s: %.*s is no setting", path, (int)length, at);
        at += length;
    }
}

static int check_folder(ts_test *test, const char *folder)
{
    char path[4096];
    int pages = 0;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));) {
        if (!strstr(e->d_name, ".md")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        check_page(test, path);
        pages++;
    }
    if (list) closedir(list);
    return pages;
}

TS_TEST(documents_name_settings_that_exist)
{
    int pages = check_folder(test, TS_SOURCE_DIR "/docs") +
                check_folder(test, TS_SOURCE_DIR "/docs/howto") + check_folder(test, TS_SOURCE_DIR);
    TS_EXPECT(pages > 10);
}
