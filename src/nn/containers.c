/* SPDX-License-Identifier: Apache-2.0 */
/* Sequential, ModuleList and ModuleDict. */
#include <stdio.h>
#include <tessera/nn.h>

#include "nn/module_impl.h"

static ts_module *container_new(const ts_module_class *klass, ts_module *const *modules, int n)
{
    if (n < 0 || (n > 0 && !modules))
        return ts_module_fail("%s: %d modules are not a list", klass->name, n);
    ts_module *self = ts_module_new(klass);
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        ts_module_add(self, name, modules[i]);
    }
    return self;
}

static ts_tensor *sequential_forward(ts_module *self, ts_tensor *x)
{
    for (int64_t i = 0; i < self->children.count; i++) x = ts_forward(self->children.item[i], x);
    return x;
}

static const ts_module_class sequential_class = {.name = "Sequential",
                                                 .forward = sequential_forward};

ts_module *ts_sequential_new(ts_module *const *modules, int n)
{
    return container_new(&sequential_class, modules, n);
}

static const ts_module_class list_class = {.name = "ModuleList"};

ts_module *ts_module_list_new(ts_module *const *modules, int n)
{
    return container_new(&list_class, modules, n);
}

ts_module *ts_module_list_get(const ts_module *list, int64_t i)
{
    return list && i >= 0 && i < list->children.count ? list->children.item[i] : NULL;
}

static const ts_module_class dict_class = {.name = "ModuleDict"};

ts_module *ts_module_dict_new(const char *const *names, ts_module *const *modules, int n)
{
    if (n < 0 || (n > 0 && (!modules || !names)))
        return ts_module_fail("ModuleDict: %d modules are not a list", n);
    ts_module *self = ts_module_new(&dict_class);
    for (int i = 0; i < n; i++) ts_module_add(self, names[i], modules[i]);
    return self;
}
