/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"

ts_status checkpoint_prepare(const char *dir)
{
    struct stat info;
    if (mkdir(dir, 0777) == 0) return TS_OK;
    if (errno == EEXIST && stat(dir, &info) == 0 && S_ISDIR(info.st_mode)) return TS_OK;
    return ts_fail(TS_EIO, "train: --checkpoint %s: %s", dir,
                   errno == EEXIST ? "it is not a folder" : strerror(errno));
}

/* ---- saving ---------------------------------------------------------------------------------- */

static ts_object *state_of(ts_tensor_list *list)
{
    ts_object *map = ts_tensor_list_to_object(list);
    ts_tensor_list_free(list);
    return map;
}

static ts_object *describe(const trainer *t, const checkpoint *at)
{
    ts_generator_state random = ts_generator_get_state();
    ts_object *all = ts_object_map(), *generator = ts_object_map(), *loader = ts_object_map();
    ts_object_set(generator, "seed", ts_object_int((int64_t)random.seed));
    ts_object_set(generator, "offset", ts_object_int((int64_t)random.offset));
    ts_object_set(loader, "epoch", ts_object_int(at->loader.epoch));
    ts_object_set(loader, "taken", ts_object_int(at->loader.taken));
    ts_object_set(loader, "seed", ts_object_int((int64_t)at->loader.seed));
    ts_object_set(all, "step", ts_object_int(at->step));
    ts_object_set(all, "loss", ts_object_double(at->loss));
    ts_object_set(all, "generator", generator);
    ts_object_set(all, "loader", loader);
    ts_object_set(all, "model", state_of(ts_module_state_dict(t->gpt)));
    ts_object_set(all, "optimizer", state_of(ts_optim_state_dict(t->optim)));
    return all;
}

ts_status checkpoint_save(const char *dir, const trainer *t, const checkpoint *at)
{
    char *path = ts_asprintf("%s/step-%09lld.pt", dir, (long long)at->step);
    if (!path) return ts_fail_memory(strlen(dir), "a path");
    ts_object *all = describe(t, at);
    ts_status status = ts_save(all, path, NULL);
    ts_object_free(all);
    free(path);
    return status;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Its step, or -1 if the name is not a checkpoint's. */
static int64_t step_in(const char *name)
{
    long long step;
    int length = 0;
    if (sscanf(name, "step-%lld.pt%n", &step, &length) != 1 || length == 0) return -1;
    return name[length] == '\0' ? step : -1;
}

static ts_status find_newest(char **path, const char *dir)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;
    int64_t newest = -1;
    *path = NULL;
    if (!folder) return ts_fail(TS_EIO, "train: --checkpoint %s: %s", dir, strerror(errno));
    while ((entry = readdir(folder))) {
        int64_t step = step_in(entry->d_name);
        if (step <= newest) continue;
        newest = step;
        free(*path);
        *path = ts_asprintf("%s/%s", dir, entry->d_name);
        if (!*path) break;
    }
    closedir(folder);
    return newest < 0 || *path ? TS_OK : ts_fail_memory(strlen(dir), "a path");
}

static ts_status read_int(int64_t *out, const ts_object *map, const char *key)
{
    return ts_object_as_int(ts_object_get(map, key), out);
}

static ts_status load_numbers(checkpoint *at, const ts_object *all)
{
    int64_t seed, offset, loader_seed;
    const ts_object *generator = ts_object_get(all, "generator");
    const ts_object *loader = ts_object_get(all, "loader");
    TS_TRY(read_int(&at->step, all, "step"));
    TS_TRY(ts_object_as_double(ts_object_get(all, "loss"), &at->loss));
    TS_TRY(read_int(&seed, generator, "seed"));
    TS_TRY(read_int(&offset, generator, "offset"));
    TS_TRY(read_int(&at->loader.epoch, loader, "epoch"));
    TS_TRY(read_int(&at->loader.taken, loader, "taken"));
    TS_TRY(read_int(&loader_seed, loader, "seed"));
    at->loader.seed = (uint64_t)loader_seed;
    ts_generator_set_state((ts_generator_state){(uint64_t)seed, (uint64_t)offset});
    return TS_OK;
}

static ts_status load_states(trainer *t, const ts_object *all)
{
    ts_tensor_list *model = NULL, *optim = NULL;
    ts_status status = ts_tensor_list_from_object(&model, ts_object_get(all, "model"));
    if (status == TS_OK)
        status = ts_tensor_list_from_object(&optim, ts_object_get(all, "optimizer"));
    if (status == TS_OK) status = ts_module_load_state_dict(t->gpt, model, true);
    if (status == TS_OK) status = ts_optim_load_state_dict(t->optim, optim);
    ts_tensor_list_free(model);
    ts_tensor_list_free(optim);
    return status;
}

ts_status checkpoint_load(bool *found, checkpoint *at, trainer *t, const char *dir)
{
    char *path;
    TS_TRY(find_newest(&path, dir));
    *found = path != NULL;
    if (!path) return TS_OK;
    ts_object *all = ts_load(path, NULL);
    ts_status status = ts_object_status(all);
    if (status == TS_OK) status = load_states(t, all);
    if (status == TS_OK) status = load_numbers(at, all);
    if (status != TS_OK) {
        char *text = ts_strdup(ts_error_last());
        ts_fail(status, "train: --resume from %s: %s", path, text ? text : "");
        free(text);
    }
    ts_object_free(all);
    free(path);
    return status;
}
