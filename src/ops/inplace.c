/* SPDX-License-Identifier: Apache-2.0 */
/* History of tensors that are changed in place, and of views.
 *
 * A change in place of a view v of a base b is, for the gradient, the functional
 *
 *     v' = op(v, ...)      b' = b with the elements of v replaced by v'
 *
 * so v gets the node of op and b a node "view_scatter".  Other views of b are then out of date:
 * when next used they get a node "view_gather", which takes their elements from b'.  The three
 * rows here are linear maps between a row-major base and the elements of a view; their attributes
 * hold the geometry. */
#include <string.h>

#include "base/memory.h"
#include "ops/dispatch.h"

/* Attributes: ndim, sizes, strides, offset of one side (view or base). */
enum {
    AT_NDIM = 0,
    AT_SIZE = 1,
    AT_STRIDE = 1 + TS_MAX_DIMS,
    AT_OFFSET = 1 + 2 * TS_MAX_DIMS,
    NUM_GEOMETRY = 2 + 2 * TS_MAX_DIMS
};
_Static_assert((int)NUM_GEOMETRY <= (int)TS_OP_MAX_ATTRS, "the geometry fits the attributes");

static void put_geometry(ts_attr *attr, ts_shape shape, const int64_t *stride, int64_t offset)
{
    memset(attr, 0, NUM_GEOMETRY * sizeof *attr);
    attr[AT_NDIM].i = shape.ndim;
    for (int i = 0; i < shape.ndim; i++) {
        attr[AT_SIZE + i].i = shape.dim[i];
        attr[AT_STRIDE + i].i = stride[i];
    }
    attr[AT_OFFSET].i = offset;
}

static ts_shape attr_shape(const ts_attr *attr)
{
    ts_shape shape = {.ndim = (int)attr[AT_NDIM].i};
    for (int i = 0; i < shape.ndim; i++) shape.dim[i] = attr[AT_SIZE + i].i;
    return shape;
}

static void attr_stride(int64_t *stride, const ts_attr *attr)
{
    for (int i = 0; i < TS_MAX_DIMS; i++) stride[i] = attr[AT_STRIDE + i].i;
}

/* The elements of the attributes' geometry in row-major t. */
static ts_tensor *elements_of(ts_tensor *t, const ts_attr *attr)
{
    int64_t stride[TS_MAX_DIMS];
    attr_stride(stride, attr);
    return ts_tensor_view(t, attr_shape(attr), stride, t->offset + attr[AT_OFFSET].i);
}

/* ---- view_gather: base -> elements of the view ----------------------------------------------- */

static ts_tensor *call_geometry(const ts_op_def *def, ts_tensor *t, const ts_attr *attr)
{
    ts_op_call call = {.def = def, .in = &t, .num_in = 1, .num_attrs = NUM_GEOMETRY};
    memcpy(call.attr, attr, NUM_GEOMETRY * sizeof *attr);
    return ts_dispatch(&call);
}

static ts_status gather_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    out->shape = attr_shape(call->attr);
    return TS_OK;
}

static ts_status gather_kernel(ts_op_call *call)
{
    ts_tensor *elements = elements_of(ts_row_major(call->in[0]), call->attr);
    TS_TRY(ts_tensor_check(elements, "view_gather"));
    return ts_tensor_copy_data(call->out[0], elements);
}

static ts_status gather_backward(const ts_backward_call *call)
{
    int64_t stride[TS_MAX_DIMS];
    attr_stride(stride, call->attr);
    call->grad_in[0] =
        ts_view_embed(call->grad_out[0], call->in_spec[0].shape, stride, call->attr[AT_OFFSET].i);
    return TS_OK;
}

static const ts_op_def gather_row = {.name = "view_gather",
                                     .num_out = 1,
                                     .infer = gather_infer,
                                     .kernel = {[TS_CPU] = gather_kernel},
                                     .backward = gather_backward};

/* ---- view_embed: elements of a view -> base that is zero elsewhere; overlapping elements add - */

/* Attributes: the shape of the base, the strides of the view. */
static ts_status embed_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    out->shape = attr_shape(call->attr);
    return TS_OK;
}

static ts_status embed_kernel(ts_op_call *call)
{
    ts_tensor *base = call->out[0], *t = call->in[0];
    int64_t stride[TS_MAX_DIMS];
    attr_stride(stride, call->attr);
    TS_TRY(ts_tensor_fill_data(base, 0));
    if (t->numel == 0) return TS_OK;
    ts_tensor *elements =
        ts_tensor_view(base, t->shape, stride, base->offset + call->attr[AT_OFFSET].i);
    TS_TRY(ts_tensor_check(elements, "view_embed"));
    if (!ts_tensor_overlaps(elements)) return ts_tensor_copy_data(elements, t);
    return ts_add_overlapping(elements, t);
}

static ts_status embed_backward(const ts_backward_call *call)
{
    int64_t stride[TS_MAX_DIMS];
    ts_attr attr[NUM_GEOMETRY];
    attr_stride(stride, call->attr);
    put_geometry(attr, call->in_spec[0].shape, stride, call->attr[AT_OFFSET].i);
    call->grad_in[0] = call_geometry(&gather_row, call->grad_out[0], attr);
    return TS_OK;
}

static const ts_op_def embed_row = {.name = "view_embed",
                                    .num_out = 1,
                                    .infer = embed_infer,
                                    .kernel = {[TS_CPU] = embed_kernel},
                                    .backward = embed_backward};

ts_tensor *ts_view_embed(ts_tensor *t, ts_shape base_shape, const int64_t *stride, int64_t offset)
{
    ts_op_call call = {.def = &embed_row, .in = &t, .num_in = 1, .num_attrs = NUM_GEOMETRY};
    put_geometry(call.attr, base_shape, (const int64_t[TS_MAX_DIMS]){0}, offset);
    for (int i = 0; i < TS_MAX_DIMS; i++) call.attr[AT_STRIDE + i].i = stride[i];
    return ts_dispatch(&call);
}

/* ---- view_clear: a copy of the base with the elements of the view zero ----------------------- */

static ts_status clear_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    return TS_OK;
}

static ts_status clear_kernel(ts_op_call *call)
{
    TS_TRY(ts_tensor_copy_data(call->out[0], call->in[0]));
    ts_tensor *elements = elements_of(call->out[0], call->attr);
    TS_TRY(ts_tensor_check(elements, "view_clear"));
    return ts_tensor_fill_data(elements, 0);
}

static ts_status clear_backward(const ts_backward_call *call);

static const ts_op_def clear_row = {.name = "view_clear",
                                    .num_out = 1,
                                    .infer = clear_infer,
                                    .kernel = {[TS_CPU] = clear_kernel},
                                    .backward = clear_backward};

static ts_status clear_backward(const ts_backward_call *call)
{
    call->grad_in[0] = call_geometry(&clear_row, call->grad_out[0], call->attr);
    return TS_OK;
}

/* ---- view_scatter: only ever a node ---------------------------------------------------------- */

/* b' = b with the elements of v replaced by v'     db = db' without them     dv' = db' at them */
static ts_status scatter_backward(const ts_backward_call *call)
{
    ts_tensor *g = call->grad_out[0];
    if (call->needs[0]) call->grad_in[0] = call_geometry(&clear_row, g, call->attr);
    if (call->needs[1]) call->grad_in[1] = call_geometry(&gather_row, g, call->attr);
    return TS_OK;
}

static const ts_op_def scatter_row = {
    .name = "view_scatter", .num_out = 1, .backward = scatter_backward};

static ts_status view_geometry(ts_attr *attr, const ts_tensor *view)
{
    if (!view->base->contiguous)
        return ts_fail(TS_ESTATE,
                       "a view was changed in place whose base, of shape %s, is not "
                       "row-major; use a clone of the base",
                       ts_shape_format((char[TS_SHAPE_TEXT]){0}, TS_SHAPE_TEXT, view->base->shape));
    put_geometry(attr, view->shape, view->stride, view->offset - view->base->offset);
    return TS_OK;
}

ts_status ts_refresh_view(ts_tensor *view)
{
    ts_edge base;
    ts_attr attr[NUM_GEOMETRY];
    ts_spec spec = ts_tensor_spec(view->base);
    if (!ts_autograd_of(view)) return TS_ENOMEM;
    TS_TRY(ts_autograd_edge(&base, view->base));
    if (base.node) {
        TS_TRY(view_geometry(attr, view));
        ts_node *node = ts_op_node_new(&gather_row, &spec, 1, attr, NUM_GEOMETRY);
        if (!node) return TS_ENOMEM;
        ts_ref_retain(&base.node->refs);
        node->edge[0] = base;
        ts_status status = ts_autograd_set_node(view, node, 0);
        ts_node_release(node);
        TS_TRY(status);
    }
    view->autograd->generation = view->base->autograd->generation;
    return TS_OK;
}

static bool is_grad_leaf(const ts_tensor *t)
{
    return t->autograd && !t->autograd->node && t->autograd->requires_grad;
}

ts_status ts_inplace_check(const ts_op_call *call)
{
    const ts_tensor *t = call->in[0];
    const char *op = call->def->name, *name = ts_tensor_name(t);
    if (is_grad_leaf(t))
        return ts_fail(TS_ESTATE,
                       "%s: %s%sis a leaf that requires grad; change it inside "
                       "ts_no_grad_begin/end",
                       op, name, *name ? " " : "the tensor ");
    if (!t->base) return TS_OK;
    if (is_grad_leaf(t->base))
        return ts_fail(TS_ESTATE,
                       "%s: the tensor is a view of a leaf that requires grad; change it "
                       "inside ts_no_grad_begin/end",
                       op);
    if (t->autograd && t->autograd->untracked)
        return ts_fail(TS_ESTATE,
                       "%s: the tensor is a view made without recording of a tensor that "
                       "requires grad; make the view outside ts_no_grad",
                       op);
    if (t->base->contiguous) return TS_OK;
    return ts_fail(TS_ESTATE,
                   "%s: the tensor is a view of a tensor that is not row-major; use a "
                   "clone of that",
                   op);
}

static ts_status rebase_base(ts_tensor *view, ts_node *node)
{
    ts_tensor *base = view->base;
    ts_attr attr[NUM_GEOMETRY];
    ts_edge old;
    const ts_spec spec[] = {ts_tensor_spec(base), ts_tensor_spec(view)};
    TS_TRY(view_geometry(attr, view));
    TS_TRY(ts_autograd_edge(&old, base));
    ts_node *scatter = ts_op_node_new(&scatter_row, spec, 2, attr, NUM_GEOMETRY);
    if (!scatter) return TS_ENOMEM;
    if (old.node) ts_ref_retain(&old.node->refs);
    ts_ref_retain(&node->refs);
    scatter->edge[0] = old;
    scatter->edge[1] = (ts_edge){node, 0};
    ts_status status = ts_autograd_set_node(base, scatter, 0);
    ts_node_release(scatter);
    TS_TRY(status);
    view->autograd->generation = ++base->autograd->generation;
    return TS_OK;
}

ts_status ts_inplace_rebase(ts_tensor *t, ts_node *node)
{
    TS_TRY(ts_autograd_set_node(t, node, 0));
    if (t->base) return rebase_base(t, node);
    t->autograd->generation++;
    return TS_OK;
}
