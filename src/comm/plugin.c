/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and loads backends that are shared objects of their own. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "comm/backends.h"

/* ---- which MPI ------------------------------------------------------------------------------- */

static bool loaded(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle) dlclose(handle);
    return handle != NULL;
}

static bool any_set(const char *const *variables)
{
    for (; *variables; variables++)
        if (getenv(*variables)) return true;
    return false;
}

/* The one that the program itself is linked with; else that of the launcher; NULL: either. */
static const char *which_mpi(void)
{
    static const char *const openmpi[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                          "OMPI_UNIVERSE_SIZE", NULL};
    static const char *const mpich[] = {"PMI_RANK", "PMI_FD", "PMI_PORT", "HYDI_CONTROL_FD", NULL};
    static const char *const pmix[] = {"PMIX_RANK", "PMIX_NAMESPACE", NULL};
    const char *set = ts_setting_string(TS_SETTING_MPI);
    if (strcasecmp(set, "mpich") == 0) return "mpich";
    if (strcasecmp(set, "openmpi") == 0) return "openmpi";
    if (*set) return set;
    if (loaded("libmpi.so.40")) return "openmpi";
    if (loaded("libmpich.so.12")) return "mpich";
    if (any_set(openmpi)) return "openmpi";
    if (any_set(mpich)) return "mpich";
    return any_set(pmix) ? "openmpi" : NULL;
}

/* ---- where ----------------------------------------------------------------------------------- */

/* Folder of the library, or of the program that contains it. */
static bool own_folder(char *out, size_t size)
{
    Dl_info info;
    char real[PATH_MAX];
    ssize_t length;
    if (dladdr((void *)(uintptr_t)&ts_plugin_load, &info) && info.dli_fname &&
        strchr(info.dli_fname, '/') && realpath(info.dli_fname, real)) {
        length = (ssize_t)strlen(real);
    } else {
        length = readlink("/proc/self/exe", real, sizeof real - 1);
        if (length < 0) return false;
        real[length] = '\0';
    }
    char *slash = strrchr(real, '/');
    if (!slash || (size_t)(slash - real) >= size) return false;
    *slash = '\0';
    snprintf(out, size, "%s", real);
    return true;
}

typedef struct search {
    char file[64];      /* "libtessera_mpi_openmpi.so" */
    char error[512];    /* of one that does not load */
    char folders[1024]; /* that were looked at */
    void *handle;
    char path[PATH_MAX]; /* of handle */
} search;

static bool try_folder(search *s, const char *folder, size_t length)
{
    size_t used = strlen(s->folders);
    if (length == 0 || s->handle) return s->handle != NULL;
    snprintf(s->path, sizeof s->path, "%.*s/%s", (int)length, folder, s->file);
    if (access(s->path, R_OK) != 0) {
        snprintf(s->folders + used, sizeof s->folders - used, "%s%.*s", used ? ", " : "",
                 (int)length, folder);
        return false;
    }
    s->handle = dlopen(s->path, RTLD_NOW | RTLD_LOCAL);
    if (!s->handle) snprintf(s->error, sizeof s->error, "%s", dlerror());
    return s->handle != NULL;
}

/* TESSERA_PLUGIN_PATH first, then what lies beside the library or the program. */
static bool open_file(search *s, const char *file)
{
    static const char *const beside[] = {"tessera", ".", "../" TS_LIBDIR "/tessera"};
    char folder[PATH_MAX], path[PATH_MAX + 64];
    snprintf(s->file, sizeof s->file, "%s", file);
    s->folders[0] = '\0';
    const char *list = ts_setting_string(TS_SETTING_PLUGIN_PATH);
    for (size_t length; *list; list += length + (list[length] == ':')) {
        length = strcspn(list, ":");
        if (try_folder(s, list, length)) return true;
    }
    for (size_t i = 0; own_folder(folder, sizeof folder) && i < sizeof beside / sizeof *beside;
         i++) {
        snprintf(path, sizeof path, "%s/%s", folder, beside[i]);
        if (try_folder(s, path, strlen(path))) return true;
    }
    return false;
}

static ts_status not_open(const search *s)
{
    if (*s->error) return ts_fail(TS_EBACKEND, "%s does not load: %s", s->file, s->error);
    return ts_fail(TS_EBACKEND, "%s is in none of: %s", s->file, s->folders);
}

ts_status ts_plugin_open(void **handle, const char *file)
{
    search s = {.handle = NULL};
    if (!open_file(&s, file)) return not_open(&s);
    *handle = s.handle;
    return TS_OK;
}

static bool open_backend(search *s, const char *backend)
{
    char file[64];
    if (strcmp(backend, "mpi") != 0) {
        snprintf(file, sizeof file, "libtessera_%.30s.so", backend);
        return open_file(s, file);
    }
    const char *which = which_mpi();
    snprintf(file, sizeof file, "libtessera_mpi_%.30s.so", which ? which : "openmpi");
    return open_file(s, file) || (!which && open_file(s, "libtessera_mpi_mpich.so"));
}

/* ---- loading --------------------------------------------------------------------------------- */

static ts_status check_table(const search *s, const ts_backend_ops *ops, const char *backend)
{
    char why[512];
    if (!ops) snprintf(why, sizeof why, "%s", ts_error_last());
    if (ops && ts_backend_check(ops) == TS_OK && strcmp(ops->name, backend) == 0) return TS_OK;
    if (ops)
        snprintf(why, sizeof why, "%s",
                 ops->version != TS_BACKEND_VERSION ? ts_error_last() : "it is another backend");
    return ts_fail(TS_EBACKEND, "%s cannot be used: %s", s->path, why);
}

ts_status ts_plugin_load(const ts_backend_ops **out, const char *backend)
{
    search s = {.handle = NULL};
    if (!open_backend(&s, backend)) return not_open(&s);
    ts_backend_entry_fn *entry;
    *(void **)(&entry) = dlsym(s.handle, TS_BACKEND_ENTRY);
    if (!entry) return ts_fail(TS_EBACKEND, "%s has no function " TS_BACKEND_ENTRY, s.path);
    const ts_backend_ops *ops = entry(ts_host());
    TS_TRY(
        check_table(&s, ops, backend)); /* what started inside it may still run: it stays loaded */
    TS_LOG(TS_LOG_COMM, TS_LEVEL_INFO, "backend '%s': %s", backend, s.path);
    *out = ops;
    return TS_OK;
}
