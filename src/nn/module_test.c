/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

/* A module that doubles its input, with a temporary on the way. */
static ts_tensor *twice_forward(ts_module *self, ts_tensor *x)
{
    (void)self;
    return ts_mul_scalar(ts_add_scalar(ts_add_scalar(x, 1.0), -1.0), 2.0);
}
static const ts_module_class twice_class = {.name = "Twice", .forward = twice_forward};

typedef struct pair {
    ts_module *fc1, *fc2;
    int trained; /* times that the mode changed */
} pair;

static ts_tensor *pair_forward(ts_module *self, ts_tensor *x)
{
    pair *s = ts_module_state(self);
    return ts_forward(s->fc2, ts_relu(ts_forward(s->fc1, x)));
}
static void pair_train(ts_module *self, bool training)
{
    pair *s = ts_module_state(self);
    (void)training;
    s->trained++;
}
static const ts_module_class pair_class = {
    .name = "Pair", .state_size = sizeof(pair), .forward = pair_forward, .train = pair_train};

static ts_module *pair_new(int64_t in, int64_t hidden, int64_t out)
{
    ts_module *self = ts_module_new(&pair_class);
    pair *s = ts_module_state(self);
    s->fc1 = ts_module_add(self, "fc1", ts_linear_new(in, hidden, NULL));
    s->fc2 = ts_module_add(self, "fc2", ts_linear_new(hidden, out, NULL));
    return self;
}

/* ---- structure ------------------------------------------------------------------------------- */

TS_TEST(module_lists_parameters_in_order_by_path)
{
    static const char *const names[] = {"scale", "mlp.fc1.weight", "mlp.fc1.bias", "mlp.fc2.weight",
                                        "mlp.fc2.bias"};
    ts_module *m = ts_module_new(&twice_class);
    ts_tensor *scale = ts_module_add_parameter(m, "scale", ts_ones(TS_SHAPE(2), NULL));
    ts_module *mlp = ts_module_add(m, "mlp", pair_new(3, 4, 2));
    ts_module_add_parameter(m, "none", NULL);
    ts_module_add_buffer(m, "count", ts_zeros(ts_shape_scalar(), NULL), true);
    ts_module *tied = ts_module_add(m, "tied", ts_module_new(&twice_class));
    ts_module_add_parameter(tied, "weight", ts_module_parameter(mlp, "fc1.weight"));
    TS_PASS(ts_module_status(m));

    ts_tensor_list *list = ts_module_parameters(m);
    TS_EXPECT_INT(ts_tensor_list_count(list), 5);
    for (int i = 0; i < 5; i++) {
        TS_EXPECT_STR(ts_tensor_list_name(list, i), names[i]);
        TS_EXPECT_STR(ts_tensor_name(ts_tensor_list_get(list, i)), names[i]);
        TS_EXPECT(ts_requires_grad(ts_tensor_list_get(list, i)));
        TS_EXPECT(ts_tensor_list_find(list, names[i]) == ts_module_parameter(m, names[i]));
    }
    TS_EXPECT(ts_tensor_list_get(list, 0) == scale && ts_tensor_list_get(list, 5) == NULL);
    TS_EXPECT_STR(ts_tensor_list_name(list, 5), "");
    ts_tensor_list_free(list);
    TS_EXPECT_INT(ts_module_num_parameters(m), 2 + 12 + 4 + 8 + 2);

    list = ts_module_buffers(m);
    TS_EXPECT_INT(ts_tensor_list_count(list), 1);
    TS_EXPECT_STR(ts_tensor_list_name(list, 0), "count");
    ts_tensor_list_free(list);
    TS_EXPECT(ts_module_child(m, "mlp.fc2") == ts_module_child(mlp, "fc2"));
    TS_EXPECT(ts_module_child(m, "") == m);
    TS_EXPECT(!ts_module_child(m, "mlp.fc3") && !ts_module_child(m, "mlp.fc2.x"));
    TS_EXPECT(!ts_module_parameter(m, "none") && !ts_module_parameter(m, "mlp"));
    ts_module_free(m);
}

TS_TEST(module_tensors_live_in_the_parameter_line_of_the_ledger)
{
    ts_memory_stats before, after;
    ts_memory_read(&before);
    ts_module *m = ts_module_new(&twice_class);
    ts_scope scope = ts_scope_begin();
    ts_module_add_parameter(m, "w", ts_zeros(TS_SHAPE(100), NULL));
    ts_scope_end(scope);
    ts_memory_read(&after);
    TS_EXPECT_INT(after.current[TS_CATEGORY_PARAMETER] - before.current[TS_CATEGORY_PARAMETER],
                  400);
    TS_EXPECT_INT(after.current[TS_CATEGORY_ACTIVATION], before.current[TS_CATEGORY_ACTIVATION]);
    ts_module_free(m);
    ts_memory_read(&after);
    TS_EXPECT_INT(after.current_total, before.current_total);
}

static ts_status note_path(ts_module *m, const char *path, void *user)
{
    char *text = user;
    strcat(text, path);
    strcat(text, ts_module_class_of(m)->name);
    strcat(text, " ");
    return strstr(path, "fc2") && strstr(text, "stop") ? TS_EUSER : TS_OK;
}

TS_TEST(module_apply_visits_children_first)
{
    char text[200] = "";
    ts_module *m = ts_module_new(&twice_class);
    ts_module_add(m, "a", pair_new(1, 1, 1));
    TS_PASS(ts_module_apply(m, note_path, text));
    TS_EXPECT_STR(text, "a.fc1Linear a.fc2Linear aPair Twice ");
    strcpy(text, "stop ");
    TS_EXPECT_INT(ts_module_apply(m, note_path, text), TS_EUSER);
    ts_module_free(m);
}

TS_TEST(module_modes_are_recursive)
{
    ts_module *m = ts_module_new(&twice_class), *p = ts_module_add(m, "p", pair_new(1, 1, 1));
    pair *s = ts_module_state(p);
    TS_EXPECT(ts_module_is_training(m) && ts_module_is_training(s->fc1));
    ts_module_train(m, false);
    ts_module_train(m, false);
    TS_EXPECT(!ts_module_is_training(m) && !ts_module_is_training(s->fc1));
    TS_EXPECT_INT(s->trained, 1);
    ts_module_train(p, true);
    TS_EXPECT(!ts_module_is_training(m) && ts_module_is_training(s->fc1));
    TS_EXPECT_INT(s->trained, 2);
    ts_module_free(m);
}

/* ---- failure --------------------------------------------------------------------------------- */

TS_TEST(module_fails_with_its_first_failed_child)
{
    ts_module *m = pair_new(3, -1, 2), *above = ts_module_new(&twice_class);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "linear_new: 3 in and -1 out features");
    TS_EXPECT(ts_module_add(above, "below", m) == m);
    TS_FAIL(ts_module_status(above), TS_EINVAL, "linear_new: 3 in and -1");
    TS_BAD(ts_forward(above, ts_ones(TS_SHAPE(1, 3), NULL)), TS_EINVAL, "linear_new: 3 in and -1");
    TS_EXPECT(ts_module_parameters(above) == NULL);
    TS_FAIL(ts_module_load_state_dict(above, NULL, true), TS_EINVAL, "linear_new");
    TS_EXPECT_INT(ts_module_num_parameters(above), 0);
    TS_EXPECT_INT(ts_module_register_forward_hook(above, NULL, NULL), 0);
    ts_module_train(above, false);
    ts_module_free(above);

    /* A child that fails after it was added takes its parents along. */
    ts_module *root = ts_module_new(&twice_class), *inner = ts_module_new(&twice_class);
    ts_module_add(root, "inner", inner);
    ts_module_add(inner, "bad", ts_module_fail("made of %s", "straw"));
    TS_FAIL(ts_module_status(root), TS_EINVAL, "made of straw");
    ts_module_free(root);
}

TS_TEST(module_state_of_a_failed_module_is_scratch)
{
    ts_module *m = ts_module_fail("no");
    char *state = ts_module_state(m);
    for (int i = 0; i < TS_MODULE_MAX_STATE; i++) TS_EXPECT(state[i] == 0);
    memset(state, 1, TS_MODULE_MAX_STATE);
    TS_EXPECT(ts_module_state(NULL) != NULL);
    ts_module_free(m);
    static const ts_module_class huge = {.name = "Huge", .state_size = TS_MODULE_MAX_STATE + 1};
    m = ts_module_new(&huge);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "4097 bytes");
    ts_module_free(m);
    TS_FAIL(ts_module_status(NULL), TS_EINVAL, "missing");
    TS_BAD(ts_forward(NULL, ts_ones(TS_SHAPE(1), NULL)), TS_EINVAL, "missing");
    ts_module_free(NULL);
}

/* Adds something wrong to a fresh module and gives the status. */
static ts_status add_wrong(const char *name, ts_module *child, ts_tensor *t)
{
    ts_module *m = pair_new(1, 1, 1);
    if (child)
        ts_module_add(m, name, child);
    else
        ts_module_add_parameter(m, name, t);
    ts_status status = ts_module_status(m);
    ts_module_free(m);
    return status;
}

TS_TEST(module_refuses_bad_names_and_tensors)
{
    ts_tensor *t = ts_ones(TS_SHAPE(1), NULL);
    TS_FAIL(add_wrong("a.b", ts_relu_new(), NULL), TS_EINVAL, "'a.b' is not a name");
    TS_FAIL(add_wrong("", NULL, t), TS_EINVAL, "'' is not a name");
    TS_FAIL(add_wrong("fc1", ts_relu_new(), NULL), TS_EINVAL, "already has something called 'fc1'");
    TS_FAIL(add_wrong("fc2", NULL, t), TS_EINVAL, "Pair already has something called 'fc2'");
    TS_FAIL(add_wrong(NULL, ts_relu_new(), NULL), TS_EINVAL, "not a name");
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    TS_EXPECT_INT(add_wrong("w", NULL, ts_zeros(TS_SHAPE(1), &opt)), TS_EDTYPE);
    TS_EXPECT_INT(add_wrong("w", NULL, ts_zeros(TS_SHAPE(-1), NULL)), TS_ESHAPE);
    ts_tensor *leaf = ts_ones(TS_SHAPE(1), NULL);
    TS_PASS(ts_set_requires_grad(leaf, true));
    TS_FAIL(add_wrong("w", NULL, ts_mul_scalar(leaf, 2)), TS_EINVAL, "made by an operation");
}

TS_TEST(module_has_one_parent)
{
    ts_module *a = ts_module_new(&twice_class), *b = ts_module_new(&twice_class);
    ts_module *child = ts_module_add(a, "x", ts_relu_new());
    ts_module_add(b, "x", child);
    TS_FAIL(ts_module_status(b), TS_EINVAL, "one parent");
    TS_PASS(ts_module_status(a));
    ts_module_free(child); /* only roots are freed */
    TS_EXPECT(ts_module_child(a, "x") == child);
    ts_module_add(child, "loop", a);
    TS_FAIL(ts_module_status(a), TS_EINVAL, "cannot contain itself");
    ts_module_free(a);
    ts_module_free(b);
}

/* ---- calling --------------------------------------------------------------------------------- */

TS_TEST(module_call_lets_temporaries_go)
{
    ts_memory_stats before, after;
    ts_module *m = ts_module_new(&twice_class);
    ts_tensor *x = ts_ones(TS_SHAPE(1000), NULL);
    ts_memory_read(&before);
    ts_tensor *y = ts_forward(m, x);
    ts_memory_read(&after);
    TS_EXPECT_ALL(y, 2.0);
    TS_EXPECT_INT(after.current_total - before.current_total, 4000);
    ts_module_free(m);
}

TS_TEST(module_errors_begin_with_the_path)
{
    ts_module *inner = pair_new(16, 8, 2), *m = ts_module_new(&twice_class);
    ts_module *list = ts_module_add(m, "h", ts_module_list_new(&inner, 1));
    ts_tensor *x = ts_ones(TS_SHAPE(2, 15), NULL);
    TS_BAD(ts_forward(inner, x), TS_ESHAPE, "h.0.fc1: linear: ");
    TS_EXPECT_TEXT(ts_tensor_error(ts_forward(inner, x)), "15");
    TS_BAD(ts_forward(ts_module_child(m, "h.0.fc2"), x), TS_ESHAPE, "h.0.fc2: linear: ");
    TS_BAD(ts_forward(list, x), TS_EUNSUPPORTED, "h: ModuleList has no forward");
    TS_BAD(ts_module_call(inner, (ts_tensor *[]){x, x}, 2), TS_EINVAL,
           "Pair takes 1 tensor, not 2");
    TS_BAD(ts_module_call(inner, NULL, 1), TS_EINVAL, "module_call");
    TS_BAD(ts_module_call(inner, &x, TS_MODULE_MAX_ARGS + 1), TS_EINVAL, "9 inputs");
    TS_BAD(ts_add(x, ts_ones(TS_SHAPE(7), NULL)), TS_ESHAPE, "add: ");
    TS_EXPECT(strstr(ts_error_last(), "h.0") == NULL); /* the path ends with the call */
    ts_module_free(m);
}

TS_TEST(module_errors_keep_the_path_after_a_child_has_returned)
{
    ts_module *layers[] = {ts_linear_new(4, 5, NULL), ts_linear_new(6, 2, NULL)};
    ts_module *inner = ts_sequential_new(layers, 2), *m = ts_module_new(&twice_class);
    ts_module_add(m, "h", ts_module_list_new(&inner, 1));
    TS_BAD(ts_forward(inner, ts_ones(TS_SHAPE(2, 4), NULL)), TS_ESHAPE, "h.0.1: linear: ");
    ts_module_free(m);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

typedef struct hook_log {
    char text[100];
    int64_t own, other; /* handles that a hook removes */
} hook_log;

static ts_status pre_add_one(ts_module *m, ts_tensor **args, int n, void *user)
{
    hook_log *log = user;
    (void)m, (void)n;
    strcat(log->text, "+");
    args[0] = ts_add_scalar(args[0], 1.0);
    return TS_OK;
}

static ts_status pre_double(ts_module *m, ts_tensor **args, int n, void *user)
{
    hook_log *log = user;
    (void)m, (void)n;
    strcat(log->text, "*");
    args[0] = ts_mul_scalar(args[0], 2.0);
    return TS_OK;
}

static ts_tensor *post_negate(ts_module *m, ts_tensor *const *args, int n, ts_tensor *out,
                              void *user)
{
    hook_log *log = user;
    (void)m, (void)args, (void)n;
    strcat(log->text, "-");
    return ts_neg(out);
}

static ts_tensor *post_look(ts_module *m, ts_tensor *const *args, int n, ts_tensor *out, void *user)
{
    hook_log *log = user;
    (void)args, (void)n, (void)out;
    strcat(log->text, "o");
    ts_module_remove_hook(m, log->own);
    ts_module_remove_hook(m, log->other);
    return NULL;
}

TS_TEST(module_hooks_replace_inputs_and_outputs)
{
    hook_log log = {.text = ""};
    ts_module *m = ts_module_new(&twice_class);
    ts_tensor *x = ts_full(TS_SHAPE(2), 3.0, NULL);
    int64_t add = ts_module_register_forward_pre_hook(m, pre_add_one, &log);
    ts_module_register_forward_pre_hook(m, pre_double, &log);
    ts_module_register_forward_hook(m, post_negate, &log);
    TS_EXPECT_ALL(ts_forward(m, x), -16.0);
    TS_EXPECT_STR(log.text, "+*-");
    ts_module_remove_hook(m, add);
    ts_module_remove_hook(m, add);
    ts_module_remove_hook(m, 999);
    TS_EXPECT_ALL(ts_forward(m, x), -12.0);
    TS_EXPECT_ALL(x, 3.0);
    ts_module_free(m);
}

TS_TEST(module_hooks_may_be_removed_while_they_run)
{
    hook_log log = {.text = ""};
    ts_module *m = ts_module_new(&twice_class);
    ts_tensor *x = ts_ones(TS_SHAPE(2), NULL);
    log.own = ts_module_register_forward_hook(m, post_look, &log);
    log.other = ts_module_register_forward_hook(m, post_negate, &log);
    ts_module_register_forward_pre_hook(m, pre_add_one, &log);
    TS_EXPECT_ALL(ts_forward(m, x), 4.0);
    TS_EXPECT_STR(log.text, "+o"); /* the second was removed before its turn */
    TS_EXPECT_ALL(ts_forward(m, x), 4.0);
    TS_EXPECT_STR(log.text, "+o+");
    ts_module_free(m);
}

static ts_status pre_register(ts_module *m, ts_tensor **args, int n, void *user)
{
    (void)args, (void)n;
    for (int i = 0; i < 20; i++) ts_module_register_forward_pre_hook(m, pre_add_one, user);
    return TS_OK;
}

static ts_status pre_fail(ts_module *m, ts_tensor **args, int n, void *user)
{
    (void)m, (void)n, (void)user;
    args[0] = ts_mul_scalar(args[0], 5.0);
    return TS_EUSER;
}

static ts_status pre_break(ts_module *m, ts_tensor **args, int n, void *user)
{
    (void)m, (void)n, (void)user;
    args[0] = ts_zeros(TS_SHAPE(-3), NULL);
    return TS_OK;
}

TS_TEST(module_hooks_that_are_registered_or_fail_in_a_call)
{
    hook_log log = {.text = ""};
    ts_module *m = ts_module_new(&twice_class);
    ts_tensor *x = ts_ones(TS_SHAPE(2), NULL);
    int64_t h = ts_module_register_forward_pre_hook(m, pre_register, &log);
    TS_EXPECT_ALL(ts_forward(m, x), 2.0);
    ts_module_remove_hook(m, h);
    TS_EXPECT_ALL(ts_forward(m, x), 42.0);
    h = ts_module_register_forward_pre_hook(m, pre_fail, NULL);
    TS_EXPECT_INT(ts_tensor_status(ts_forward(m, x)), TS_EUSER);
    ts_module_remove_hook(m, h);
    ts_module_register_forward_pre_hook(m, pre_break, NULL);
    TS_EXPECT_INT(ts_tensor_status(ts_forward(m, x)), TS_ESHAPE);
    ts_module_free(m);
}
