/* SPDX-License-Identifier: Apache-2.0 */
/* The options of parameter groups, by the table of their rule. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "optim/optim_impl.h"

double ts_option_get(const void *opt, const ts_option_row *option)
{
    const char *at = (const char *)opt + option->offset;
    int64_t whole;
    double real;
    if (option->type == TS_OPTION_FLAG) return *(const bool *)at;
    memcpy(&whole, at, sizeof whole);
    memcpy(&real, at, sizeof real);
    return option->type == TS_OPTION_INT ? (double)whole : real;
}

static void put(void *opt, const ts_option_row *option, double value)
{
    char *at = (char *)opt + option->offset;
    int64_t whole = (int64_t)value;
    if (option->type == TS_OPTION_FLAG)
        *(bool *)at = value != 0.0;
    else if (option->type == TS_OPTION_INT)
        memcpy(at, &whole, sizeof whole);
    else
        memcpy(at, &value, sizeof value);
}

static ts_status check_range(const char *rule, const ts_option_row *o, double value)
{
    if (value >= o->low && value < o->high) {
        if (o->type == TS_OPTION_REAL || value == floor(value)) return TS_OK;
        return ts_fail(TS_EINVAL, "%s: %s is %g; it must be a whole number", rule, o->name, value);
    }
    if (isinf(o->high))
        return ts_fail(TS_EINVAL, "%s: %s is %g; it must be a number >= %g", rule, o->name, value,
                       o->low);
    return ts_fail(TS_EINVAL, "%s: %s is %g; it must be in [%g, %g)", rule, o->name, value, o->low,
                   o->high);
}

static ts_status check_options(const ts_optim_rule *rule, const void *opt)
{
    for (const ts_option_row *o = rule->option; o->name; o++)
        TS_TRY(check_range(rule->name, o, ts_option_get(opt, o)));
    return rule->check ? rule->check(opt) : TS_OK;
}

ts_status ts_optim_read_options(void **out, const ts_optim_rule *rule, const void *opt)
{
    void *copy = ts_calloc(1, rule->options_size);
    if (!copy) return ts_fail_memory(rule->options_size, "the options of an optimizer");
    memcpy(copy, rule->defaults, rule->options_size);
    ts_status status = ts_options_read(copy, rule->options_size, opt, rule->name);
    if (status == TS_OK) status = check_options(rule, copy);
    if (status != TS_OK) {
        free(copy);
        return status;
    }
    *out = copy;
    return TS_OK;
}

ts_status ts_option_set(void *opt, const ts_optim_rule *rule, const ts_option_row *option,
                        double value)
{
    double former = ts_option_get(opt, option);
    TS_TRY(check_range(rule->name, option, value));
    put(opt, option, value);
    ts_status status = rule->check ? rule->check(opt) : TS_OK;
    if (status != TS_OK) put(opt, option, former);
    return status;
}

/* ---- the public side ------------------------------------------------------------------------- */

int ts_optim_num_groups(const ts_optim *optim) { return optim ? optim->groups : 0; }

static ts_status find_option(const ts_option_row **out, const ts_optim *optim, int group,
                             const char *name)
{
    if (!optim || !name)
        return ts_fail(TS_EINVAL, "optim_option: an optimizer and a name are needed");
    if (group < 0 || group >= optim->groups)
        return ts_fail(TS_EINVAL, "%s: there is no group %d, only %d groups", optim->rule->name,
                       group, optim->groups);
    for (const ts_option_row *o = optim->rule->option; o->name; o++)
        if (strcmp(o->name, name) == 0) {
            *out = o;
            return TS_OK;
        }
    return ts_fail(TS_EINVAL, "%s: '%s' is not an option of this optimizer", optim->rule->name,
                   name);
}

ts_status ts_optim_option(const ts_optim *optim, int group, const char *name, double *value)
{
    const ts_option_row *option;
    TS_TRY(find_option(&option, optim, group, name));
    *value = ts_option_get(optim->group[group], option);
    return TS_OK;
}

ts_status ts_optim_set_option(ts_optim *optim, int group, const char *name, double value)
{
    const ts_option_row *option;
    TS_TRY(find_option(&option, optim, group, name));
    return ts_option_set(optim->group[group], optim->rule, option, value);
}

double ts_optim_group_lr(const ts_optim *optim, int group)
{
    if (!optim || group < 0 || group >= optim->groups) return NAN;
    return ((const ts_optim_head *)optim->group[group])->lr;
}

double ts_optim_lr(const ts_optim *optim) { return ts_optim_group_lr(optim, 0); }

void ts_optim_set_lr(ts_optim *optim, double lr)
{
    for (int g = 0; g < ts_optim_num_groups(optim); g++)
        ((ts_optim_head *)optim->group[g])->lr = lr;
}
