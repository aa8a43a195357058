/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of backends, and what their names mean. */
#include "comm/backends.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

enum { NAME_MAX_LENGTH = 32 };

/* Names that are ours.  Those without a table come as plug-ins. */
static const struct known {
    const char *name;
    const ts_backend_ops *(*ops)(void);
    const char *devices, *what;
} known[] = {
    {"native", ts_backend_native, "cpu", NULL},
    {"fake", ts_backend_fake, "cpu", NULL},
    {"mpi", NULL, "cpu", "for Open MPI or MPICH, built where one of them is installed"},
    {"nccl", NULL, "cuda", "for NVIDIA GPUs, which this version does not serve"},
    {"ucc", NULL, "cpu,cuda", "for UCC, which is not part of this version"},
    {"xccl", NULL, "xpu", "for Intel GPUs, which this version does not serve"},
};
enum { NUM_KNOWN = sizeof known / sizeof *known };

/* What is registered at run time, and plug-ins that were loaded.  Entries stay. */
typedef struct entry {
    const ts_backend_ops *ops;
    char *devices;
    struct entry *next;
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *entries;

static const struct known *find_known(const char *name)
{
    for (int i = 0; i < NUM_KNOWN; i++)
        if (strcmp(known[i].name, name) == 0) return &known[i];
    return NULL;
}

static const entry *find_entry(const char *name)
{
    for (const entry *e = entries; e; e = e->next)
        if (strcmp(e->ops->name, name) == 0) return e;
    return NULL;
}

/* Behind the others, so that the first one for a device stays its default. */
static bool add_entry(const ts_backend_ops *ops, const char *devices)
{
    entry *e = ts_calloc(1, sizeof *e), **end = &entries;
    if (!e || !(e->devices = ts_strdup(devices))) {
        free(e);
        return false;
    }
    e->ops = ops;
    while (*end) end = &(*end)->next;
    *end = e;
    return true;
}

static bool serves(const char *devices, const char *device)
{
    size_t length = strlen(device);
    for (const char *at = devices; at; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (strncmp(at, device, length) == 0 && (at[length] == ',' || !at[length])) return true;
    }
    return false;
}

/* ---- registering ----------------------------------------------------------------------------- */

ts_status ts_backend_check(const ts_backend_ops *ops)
{
    if (ops->version != TS_BACKEND_VERSION)
        return ts_fail(TS_EINVAL,
                       "the backend's table has version %u, this library works with version %d; "
                       "compile it with this library's tessera/ext/backend.h",
                       (unsigned)ops->version, TS_BACKEND_VERSION);
    if (!ops->name || !*ops->name || strlen(ops->name) >= NAME_MAX_LENGTH)
        return ts_fail(TS_EINVAL, "the backend's table has no name, or one of %d letters and more",
                       NAME_MAX_LENGTH);
    for (const char *c = ops->name; *c; c++)
        if (isupper((unsigned char)*c) || *c == ':' || *c == ',')
            return ts_fail(TS_EINVAL, "backend name '%s': small letters, no ':' and no ','",
                           ops->name);
    if (!ops->init || !ops->fini || !ops->abort || !ops->is_broken)
        return ts_fail(TS_EINVAL, "backend '%s' lacks init, fini, abort or is_broken", ops->name);
    return TS_OK;
}

ts_status ts_register_backend(const ts_backend_ops *ops, const char *devices)
{
    if (!ops) return ts_fail(TS_EINVAL, "register_backend: the table is missing (NULL)");
    TS_TRY(ts_backend_check(ops));
    if (!devices) {
        TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING,
               "register_backend: no devices given for '%s'; cpu and cuda are assumed", ops->name);
        devices = "cpu,cuda";
    }
    pthread_mutex_lock(&lock);
    ts_status status = TS_OK;
    if (find_known(ops->name) || strcmp(ops->name, "gloo") == 0 || find_entry(ops->name))
        status = ts_fail(TS_EINVAL, "register_backend: there is a backend '%s' already", ops->name);
    else if (!add_entry(ops, devices))
        status = ts_fail_memory(sizeof(entry), "a backend");
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- finding one ----------------------------------------------------------------------------- */

/* What there is without plug-ins, for messages. */
static void list_names(char *out, size_t size)
{
    int used = snprintf(out, size, "native (or gloo), mpi, fake");
    for (const entry *e = entries; e && used >= 0 && (size_t)used < size; e = e->next)
        if (!find_known(e->ops->name))
            used += snprintf(out + used, size - (size_t)used, ", %s", e->ops->name);
}

/* With the lock held. */
static ts_status find_plugin(const ts_backend_ops **out, const struct known *k)
{
    const entry *e = find_entry(k->name);
    if (e) {
        *out = e->ops;
        return TS_OK;
    }
    ts_status status = ts_plugin_load(out, k->name);
    if (status == TS_OK && !add_entry(*out, k->devices))
        return ts_fail_memory(sizeof(entry), "a backend");
    if (status != TS_OK) {
        char why[1024];
        snprintf(why, sizeof why, "%s", ts_error_last());
        return ts_fail(TS_EBACKEND,
                       "backend '%s' is not available: it is a plug-in %s, and %s; "
                       "ts_is_backend_available tells beforehand",
                       k->name, k->what, why);
    }
    return TS_OK;
}

static ts_status find_locked(const ts_backend_ops **out, const char *name)
{
    char names[512];
    const struct known *k = find_known(strcmp(name, "gloo") == 0 ? "native" : name);
    const entry *e = k ? NULL : find_entry(name);
    if (k && !k->ops) return find_plugin(out, k);
    if (!k && !e) {
        list_names(names, sizeof names);
        return ts_fail(TS_EBACKEND, "there is no backend '%s'; there are: %s", name, names);
    }
    *out = k ? k->ops() : e->ops;
    return TS_OK;
}

/* By a name in small letters. */
static ts_status find_by_name(const ts_backend_ops **out, const char *name)
{
    pthread_mutex_lock(&lock);
    ts_status status = find_locked(out, name);
    pthread_mutex_unlock(&lock);
    return status;
}

static const char *devices_of(const ts_backend_ops *ops)
{
    const struct known *k = find_known(ops->name);
    if (k) return k->devices;
    pthread_mutex_lock(&lock);
    const entry *e = find_entry(ops->name);
    pthread_mutex_unlock(&lock);
    return e ? e->devices : "";
}

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct pair {
    char *device, *name;
} pair;

enum { MAX_PAIRS = 8 };

/* Cuts text, which is changed, at its commas and colons. */
static ts_status split(pair *pairs, int *count, char *text)
{
    char *state = NULL;
    *count = 0;
    for (char *item = strtok_r(text, ",", &state); item; item = strtok_r(NULL, ",", &state)) {
        char *colon = strchr(item, ':');
        if (!colon || strchr(colon + 1, ':') || colon == item || !colon[1])
            return ts_fail(TS_EINVAL, "backend '%s' is not of the form device:name", item);
        *colon = '\0';
        for (int i = 0; i < *count; i++)
            if (strcmp(pairs[i].device, item) == 0)
                return ts_fail(TS_EINVAL, "two backends for device %s: '%s' and '%s'", item,
                               pairs[i].name, colon + 1);
        if (*count == MAX_PAIRS)
            return ts_fail(TS_EINVAL, "more than %d devices in one list of backends", MAX_PAIRS);
        pairs[(*count)++] = (pair){item, colon + 1};
    }
    return TS_OK;
}

static ts_status check_serves(const ts_backend_ops *ops, const char *device)
{
    if (serves(devices_of(ops), device)) return TS_OK;
    return ts_fail(TS_EUNSUPPORTED, "backend '%s' does not serve %s tensors (but %s)", ops->name,
                   device, devices_of(ops));
}

static ts_status find_in_list(const ts_backend_ops **out, char *text)
{
    pair pairs[MAX_PAIRS];
    int count;
    const ts_backend_ops *ops, *for_cpu = NULL;
    TS_TRY(split(pairs, &count, text));
    for (int i = 0; i < count; i++) {
        TS_TRY(find_by_name(&ops, pairs[i].name));
        TS_TRY(check_serves(ops, pairs[i].device));
        if (strcmp(pairs[i].device, "cpu") == 0) for_cpu = ops;
    }
    if (!for_cpu)
        return ts_fail(TS_EUNSUPPORTED, "the list of backends names none for cpu tensors, which "
                                        "are the only ones of this version");
    *out = for_cpu;
    return TS_OK;
}

static bool lower(char *out, size_t size, const char *text)
{
    size_t length = strlen(text);
    if (length >= size) return false;
    for (size_t i = 0; i <= length; i++) out[i] = (char)tolower((unsigned char)text[i]);
    return true;
}

ts_status ts_backend_find(const ts_backend_ops **out, const char *spec)
{
    char text[256];
    if (!spec) spec = "native";
    if (!lower(text, sizeof text, spec))
        return ts_fail(TS_EINVAL, "the backend's name has %zu letters", strlen(spec));
    if (strchr(text, ':') || strchr(text, ',')) return find_in_list(out, text);
    TS_TRY(find_by_name(out, text));
    return check_serves(*out, "cpu");
}

/* ---- questions ------------------------------------------------------------------------------- */

/* Every part, whatever its device. */
static bool all_available(char *text)
{
    pair pairs[MAX_PAIRS];
    int count;
    const ts_backend_ops *ops;
    if (!strchr(text, ':')) return find_by_name(&ops, text) == TS_OK;
    if (split(pairs, &count, text) != TS_OK) return false;
    for (int i = 0; i < count; i++)
        if (find_by_name(&ops, pairs[i].name) != TS_OK) return false;
    return count > 0;
}

bool ts_is_backend_available(const char *name)
{
    char text[256];
    return name && lower(text, sizeof text, name) && all_available(text);
}

bool ts_is_available(void) { return true; }
bool ts_is_gloo_available(void) { return ts_is_backend_available("gloo"); }
bool ts_is_mpi_available(void) { return ts_is_backend_available("mpi"); }
bool ts_is_nccl_available(void) { return ts_is_backend_available("nccl"); }
bool ts_is_ucc_available(void) { return ts_is_backend_available("ucc"); }
bool ts_is_xccl_available(void) { return ts_is_backend_available("xccl"); }

const char *ts_default_backend_for_device(const char *device)
{
    char type[NAME_MAX_LENGTH];
    if (!device || !lower(type, sizeof type, device)) {
        ts_fail(TS_EINVAL, "default_backend_for_device: '%s' is not a device",
                device ? device : "");
        return NULL;
    }
    type[strcspn(type, ":")] = '\0';
    static const char *const defaults[][2] = {{"cpu", "native"}, {"cuda", "nccl"}, {"xpu", "xccl"}};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (strcmp(type, defaults[i][0]) == 0) return defaults[i][1];
    pthread_mutex_lock(&lock);
    const entry *e = entries;
    while (e && !serves(e->devices, type)) e = e->next;
    pthread_mutex_unlock(&lock);
    if (!e)
        ts_fail(TS_EINVAL, "default_backend_for_device: no backend serves devices of type '%s'",
                type);
    return e ? e->ops->name : NULL;
}
