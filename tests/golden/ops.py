# SPDX-License-Identifier: Apache-2.0
"""Golden data for the table of operations: values and gradients by PyTorch.

    OMP_NUM_THREADS=1 python tests/golden/ops.py      writes ops.bin beside itself

Every line has the name, the inputs and the dtypes of a row of tests/ops/*_rows.c."""
import math
import pathlib

import torch
import torch.nn.functional as F

import golden_file

FLOATS = [torch.float32, torch.float64]
REAL = FLOATS + [torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.uint8]
NUMBERS = REAL + INTS
ALL = NUMBERS + [torch.bool]
NAMES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16",
         torch.bfloat16: "bfloat16", torch.int64: "int64", torch.int32: "int32",
         torch.uint8: "uint8", torch.bool: "bool"}


class Input:
    """low .. high by the formula of tests/ops/table.h; role: value, fixed, index or mask."""

    def __init__(self, shape, low, high, role="value"):
        self.shape, self.low, self.high, self.role = shape, low, high, role

    def make(self, k, dtype):
        count = math.prod(self.shape)
        if self.role == "mask":
            dtype = torch.bool
        if self.role == "index":
            dtype = torch.int64
        out = []
        for i in range(count):
            part = math.fmod((i + 1 + 17 * k) * 0.6180339887498949, 1.0)
            v = self.low + (self.high - self.low) * part
            if dtype == torch.bool:
                v = float(part > 0.5)
            out.append(v if dtype.is_floating_point else float(math.floor(v)))
        return convert(torch.tensor(out, dtype=torch.float64).reshape(self.shape), dtype)


def convert(t, dtype):
    """As ts_to_dtype: unsigned whole numbers stop at 0."""
    return t.clamp(min=0).to(dtype) if dtype == torch.uint8 else t.to(dtype)


arrays = {}


def case(name, fn, dtypes, *inputs):
    for dtype in dtypes:
        tensors = [spec.make(k, dtype) for k, spec in enumerate(inputs)]
        for spec, t in zip(inputs, tensors):
            if spec.role == "value" and dtype.is_floating_point:
                t.requires_grad_()
        y = fn(*tensors)
        key = f"{name}.{NAMES[dtype]}"
        arrays[f"{key}.y"] = y
        if not dtype.is_floating_point or not y.dtype.is_floating_point:
            continue
        if y.requires_grad:
            weights = Input(y.shape, 0.5, 1.5).make(7, y.dtype)
            (y * weights).sum().backward()
        for k, (spec, t) in enumerate(zip(inputs, tensors)):
            if spec.role == "value":
                arrays[f"{key}.g{k}"] = t.grad if t.grad is not None else torch.zeros_like(t)


# ---- element by element ----
SHAPE = (3, 4)
WIDE, POSITIVE, INNER = Input(SHAPE, -3, 3), Input(SHAPE, 0.25, 2.75), Input(SHAPE, -0.9, 2.5)
SMALL, MASK = Input(SHAPE, 0, 5), Input(SHAPE, 0, 1, "mask")
ROW, COLUMN = (4,), (3, 1)

for name, dtypes, of in [
        ("neg", NUMBERS, WIDE), ("abs", NUMBERS, WIDE), ("sign", NUMBERS, WIDE),
        ("relu", NUMBERS, WIDE), ("exp", REAL, WIDE), ("expm1", REAL, WIDE),
        ("log", REAL, POSITIVE), ("log1p", REAL, INNER), ("sqrt", REAL, POSITIVE),
        ("rsqrt", REAL, POSITIVE), ("reciprocal", REAL, POSITIVE), ("sin", REAL, WIDE),
        ("cos", REAL, WIDE), ("tanh", REAL, WIDE), ("erf", REAL, WIDE), ("sigmoid", REAL, WIDE),
        ("floor", REAL, WIDE), ("ceil", REAL, WIDE), ("round", REAL, WIDE), ("trunc", REAL, WIDE),
        ("logical_not", ALL, SMALL), ("isnan", ALL, WIDE), ("isfinite", ALL, WIDE)]:
    case(name, getattr(torch, name), dtypes, of)
case("silu", F.silu, REAL, WIDE)
case("gelu", F.gelu, REAL, WIDE)
case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), REAL, WIDE)
case("add_scalar", lambda x: x + 2, ALL, WIDE)
case("mul_scalar", lambda x: x * -3, ALL, WIDE)
case("square", lambda x: x ** 2, NUMBERS, WIDE)
case("cube", lambda x: x ** 3, NUMBERS, WIDE)
case("power", lambda x: x ** 2.5, REAL, POSITIVE)
case("clamp", lambda x: x.clamp(-1, 2), REAL + [torch.int64, torch.int32], WIDE)
case("clamp", lambda x: x.clamp(0, 2), [torch.uint8], WIDE)
case("clamp_low", lambda x: x.clamp(min=0.5), REAL, WIDE)
case("sub_scalar", lambda x: x - 2, NUMBERS, WIDE)
case("div_scalar", lambda x: x / 4, ALL, WIDE)
case("maximum_scalar", lambda x: torch.maximum(x, torch.tensor(1, dtype=x.dtype)), NUMBERS, WIDE)
case("minimum_scalar", lambda x: torch.minimum(x, torch.tensor(1, dtype=x.dtype)), NUMBERS, WIDE)
for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
    case(name + "_scalar", lambda x, f=getattr(torch, name): f(x, 1), ALL, SMALL)
    case(name, getattr(torch, name), ALL, SMALL, SMALL)
for name in ["logical_and", "logical_or", "logical_xor"]:
    case(name, getattr(torch, name), ALL, SMALL, SMALL)
case("add", torch.add, ALL, WIDE, WIDE)
case("sub", torch.sub, NUMBERS, WIDE, WIDE)
case("mul", torch.mul, ALL, WIDE, WIDE)
case("div", torch.div, REAL, WIDE, POSITIVE)
case("pow", torch.pow, REAL, POSITIVE, WIDE)
case("pow_whole", torch.pow, INTS, WIDE, SMALL)
case("maximum", torch.maximum, NUMBERS, WIDE, WIDE)
case("minimum", torch.minimum, NUMBERS, WIDE, WIDE)
case("add_row", torch.add, NUMBERS, WIDE, Input(ROW, -2, 2))
case("mul_column", torch.mul, REAL, WIDE, Input(COLUMN, -2, 2))
case("sub_outer", torch.sub, REAL, Input(COLUMN, -2, 2), Input(ROW, -3, 1))
case("div_scalar_tensor", torch.div, REAL, WIDE, Input((), 1, 3))
case("where", torch.where, ALL, MASK, WIDE, WIDE)
case("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.5), REAL, WIDE, WIDE, WIDE)
case("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=-2), REAL, WIDE, WIDE, POSITIVE)
case("lerp", torch.lerp, REAL, WIDE, WIDE, Input(SHAPE, 0, 1))
case("lerp_scalar", lambda a, b: torch.lerp(a, b, 0.3), REAL, WIDE, WIDE)

# ---- reductions ----
BLOCK = Input((2, 3, 4), -2, 2)
inf = math.inf
norm = torch.linalg.vector_norm
for name, dtypes, fn in [
        ("sum", ALL, lambda a: a.sum(dtype=None if a.is_floating_point() else torch.int64)),
        ("sum_first", ALL, lambda a: a.sum(0)), ("sum_outer", ALL, lambda a: a.sum((0, 2), True)),
        ("mean", REAL, lambda a: a.mean()), ("mean_last", REAL, lambda a: a.mean(-1, True)),
        ("prod", FLOATS + INTS + [torch.bool], lambda a: a.prod()),
        ("prod_last", ALL, lambda a: a.prod(-1)),
        ("prod_outer", ALL, lambda a: a.prod(2, True).prod(0, True)),
        ("max", NUMBERS, lambda a: a.max()), ("min", NUMBERS, lambda a: a.min()),
        ("amax_outer", NUMBERS, lambda a: a.amax((0, 2))),
        ("amin_last", NUMBERS, lambda a: a.amin(-1, True)),
        ("max_dim", NUMBERS, lambda a: a.max(1)[0]), ("min_dim", NUMBERS, lambda a: a.min(0, True)[0]),
        ("argmax", NUMBERS, lambda a: a.argmax(1, True)), ("argmin", NUMBERS, lambda a: a.argmin(-1)),
        ("norm_1", REAL, lambda a: norm(a, 1)), ("norm_2", REAL, lambda a: norm(a, 2)),
        ("norm_2_last", REAL, lambda a: norm(a, 2, -1, True)),
        ("norm_3_outer", REAL, lambda a: norm(a, 3, (0, 2))),
        ("norm_inf_last", REAL, lambda a: norm(a, inf, -1)),
        ("norm_0_first", REAL, lambda a: norm(a, 0, 0)),
        ("var", REAL, lambda a: a.var()),
        ("var_outer", REAL, lambda a: a.var((0, 2), correction=0, keepdim=True)),
        ("std_last", REAL, lambda a: a.std(-1)),
        ("logsumexp", REAL, lambda a: a.logsumexp((0, 1, 2))),
        ("logsumexp_first", REAL, lambda a: a.logsumexp(0, True)),
        ("any_last", ALL, lambda a: a.bool().any(-1)), ("all_outer", ALL, lambda a: a.bool().all(2, True).all(0, True)),
        ("cumsum_first", ALL, lambda a: a.cumsum(0)), ("cumsum_last", ALL, lambda a: a.cumsum(-1))]:
    case(name, fn, dtypes, BLOCK)

# ---- shapes ----


def index(limit, *shape):
    return Input(shape, 0, limit, "index")


SOURCE = Input((2, 5, 4), -2, 2)
for name, fn, inputs in [
        ("view", lambda a: a.reshape(6, 4), ()),
        ("reshape", lambda a: a.transpose(0, 2).reshape(-1, 2), ()),
        ("permute", lambda a: a.permute(2, 0, 1), ()),
        ("expand", lambda a: a.unsqueeze(1).expand(2, 3, -1, -1), ()),
        ("narrow", lambda a: a.narrow(1, 1, 2), ()), ("slice", lambda a: a[..., 1:4:2], ()),
        ("select", lambda a: a.select(1, -1), ()),
        ("cat", lambda a, b: torch.cat([a, b, a], 1), (BLOCK,)),
        ("stack", lambda a, b: torch.stack([a, b], -1), (BLOCK,)),
        ("flip", lambda a: a.flip(0, -1), ()), ("roll", lambda a: a.roll(-5, 1), ()),
        ("repeat", lambda a: a.repeat(2, 1, 3, 2), ()),
        ("tril", lambda a: a.tril(1), ()), ("triu", lambda a: a.triu(-1), ()),
        ("masked_fill", lambda a, m: a.masked_fill(m, 3), (MASK,)),
        ("pad", lambda a: F.pad(a, (0, 1, -1, 2, 1, 0), value=1), ()),
        ("sort", lambda a: a.sort(dim=1, stable=True)[0], ()),
        ("sort_down", lambda a: a.sort(dim=-1, descending=True, stable=True)[0], ()),
        ("index_select", lambda a, i: a.index_select(1, i), (index(3, 5),)),
        ("gather", lambda a, i: a.gather(2, i), (index(4, 2, 2, 6),)),
        ("index", lambda a, i, k: a[:, i, k], (index(3, 5, 1), index(4, 2)))]:
    case(name, fn, ALL, BLOCK, *inputs)
case("topk", lambda a: a.topk(2, -1)[0], NUMBERS, BLOCK)
case("argsort", lambda a: a.sort(dim=1, descending=True, stable=True)[1], NUMBERS, BLOCK)
case("index_add", lambda a, i, s: a.index_add(1, i, s), NUMBERS, BLOCK, index(3, 5), SOURCE)
case("scatter_add", lambda a, i, s: a.scatter_add(1, i, s), NUMBERS, BLOCK, index(3, 2, 5, 4), SOURCE)
case("one_hot", lambda i: F.one_hot(i, 5), FLOATS, index(5, 2, 3))

# ---- neural networks ----


def channels(n, low=-1.5, high=1.5, role="value"):
    return Input((n,), low, high, role)


def rms_norm(x, w=None):
    return F.rms_norm(x, x.shape[-1:], w, eps=1e-3)


IMAGE = Input((3, 4, 5), -2, 2)
for name, fn, inputs in [
        ("softmax", lambda a: a.softmax(-1), (BLOCK,)),
        ("softmax_middle", lambda a: a.softmax(1), (BLOCK,)),
        ("log_softmax", lambda a: a.log_softmax(-1), (BLOCK,)),
        ("log_softmax_first", lambda a: a.log_softmax(0), (BLOCK,)),
        ("layer_norm", lambda a, w, b: F.layer_norm(a, (4,), w, b, 1e-3),
         (BLOCK, channels(4), channels(4))),
        ("rms_norm", rms_norm, (BLOCK, channels(4))), ("rms_norm_plain", rms_norm, (BLOCK,)),
        ("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b, 1e-3),
         (IMAGE, channels(4), channels(4))),
        ("group_norm_plain", lambda x: F.group_norm(x, 1, eps=1e-3), (Input((2, 3, 2, 3), -2, 2),)),
        ("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, 1e-3),
         (IMAGE, channels(4), channels(4))),
        ("batch_norm_flat", lambda x, w: F.batch_norm(x, None, None, w, None, True, 0.1, 1e-3),
         (Input((6, 3), -2, 2), channels(3))),
        ("batch_norm_eval", lambda x, m, v, w: F.batch_norm(x, m, v, w, None, False, 0.1, 1e-3),
         (IMAGE, channels(4, role="fixed"), channels(4, 0.5, 2, "fixed"), channels(4)))]:
    case(name, fn, REAL, *inputs)



def picture(n):
    return Input((2, n, 5, 5), -2, 2)


def kernel(*shape):
    return Input(shape, -1, 1)


LINE = Input((2, 3, 7), -2, 2)
for name, fn, inputs in [
        ("conv2d", F.conv2d, (picture(4), kernel(2, 4, 3, 2), channels(2))),
        ("conv2d_strided", lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2), (1, 2)),
         (picture(3), kernel(2, 3, 3, 2), channels(2))),
        ("conv2d_groups", lambda x, w: F.conv2d(x, w, None, 1, (1, 0), 1, 2),
         (picture(4), kernel(6, 2, 3, 3))),
        ("conv2d_depthwise", lambda x, w, b: F.conv2d(x, w, b, (1, 2), 1, 1, 3),
         (picture(3), kernel(6, 1, 3, 3), channels(6))),
        ("conv2d_point", F.conv2d, (picture(3), kernel(4, 3, 1, 1), channels(4))),
        ("conv1d", lambda x, w, b: F.conv1d(x, w, b, 2, 1), (LINE, kernel(4, 3, 3), channels(4))),
        ("max_pool2d", lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0)), (picture(2),)),
        ("max_pool1d", lambda x: F.max_pool1d(x, 2), (LINE,)),
        ("avg_pool2d", lambda x: F.avg_pool2d(x, (3, 2), (2, 1), (1, 0)), (picture(2),)),
        ("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1, count_include_pad=False), (LINE,)),
        ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), (picture(2),)),
        ("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 3), (LINE,))]:
    case(name, fn, REAL, *inputs)


# ---- losses ----
LOGITS, SHARE, MAP = Input((6, 4), -2, 2), Input((6, 4), 0.125, 1), Input((2, 4, 3, 2), -2, 2)
ONE, WEIGHTS = Input((4,), -2, 2), channels(4, 0.5, 2, "fixed")
CLASSES, CLASS_MAP, CLASS = index(4, 6), index(4, 2, 3, 2), index(4)


def entropy(reduction, ignore, smoothing):
    return lambda x, t, w=None: F.cross_entropy(x, t, w, reduction=reduction, ignore_index=ignore,
                                                label_smoothing=smoothing)


def nll(reduction, ignore):
    return lambda x, t, w=None: F.nll_loss(x, t, w, reduction=reduction, ignore_index=ignore)


binary = F.binary_cross_entropy_with_logits
for name, fn, inputs in [
        ("cross_entropy", F.cross_entropy, (LOGITS, CLASSES)),
        ("cross_entropy_each", entropy("none", 3, 0), (LOGITS, CLASSES)),
        ("cross_entropy_smooth", entropy("sum", 3, 0.2), (LOGITS, CLASSES)),
        ("cross_entropy_weighted", entropy("mean", 1, 0), (LOGITS, CLASSES, WEIGHTS)),
        ("cross_entropy_weighted_smooth", entropy("mean", 2, 0.3), (LOGITS, CLASSES, WEIGHTS)),
        ("cross_entropy_image", entropy("none", 2, 0.1), (MAP, CLASS_MAP, WEIGHTS)),
        ("cross_entropy_one", entropy("mean", -1, 0.1), (ONE, CLASS, WEIGHTS)),
        ("nll_loss", nll("mean", 1), (LOGITS, CLASSES)),
        ("nll_loss_weighted", nll("mean", 2), (LOGITS, CLASSES, WEIGHTS)),
        ("nll_loss_image", nll("none", 2), (MAP, CLASS_MAP, WEIGHTS)),
        ("nll_loss_one", nll("sum", -1), (ONE, CLASS, WEIGHTS)),
        ("bce_logits", binary, (LOGITS, SHARE)),
        ("bce_logits_each", lambda x, y, w: binary(x, y, w, reduction="none"),
         (LOGITS, SHARE, channels(4, 0.5, 2, "fixed"))),
        ("bce_logits_weighted",
         lambda x, y, w, p: binary(x, y, w, pos_weight=p, reduction="sum"),
         (LOGITS, SHARE, Input((6, 1), 0.5, 2, "fixed"), channels(4, 0.5, 2, "fixed"))),
        ("mse_loss", F.mse_loss, (LOGITS, LOGITS)),
        ("mse_loss_sum", lambda x, y: F.mse_loss(x, y, reduction="sum"), (LOGITS, LOGITS)),
        ("mse_loss_each", lambda x, y: F.mse_loss(x, y, reduction="none"), (LOGITS, LOGITS)),
        ("l1_loss", F.l1_loss, (LOGITS, LOGITS)),
        ("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, beta=0.5, reduction="none"),
         (LOGITS, LOGITS)),
        ("smooth_l1_loss_0", lambda x, y: F.smooth_l1_loss(x, y, beta=0.0, reduction="sum"),
         (Input((), -2, 2), Input((), -1, 2))),
        ("huber_loss", lambda x, y: F.huber_loss(x, y, delta=1.5), (LOGITS, LOGITS)),
        ("kl_div", lambda x, y: F.kl_div(x, y, reduction="none"), (LOGITS, SHARE)),
        ("kl_div_log", lambda x, y: F.kl_div(x, y, reduction="sum", log_target=True),
         (LOGITS, LOGITS))]:
    case(name, fn, REAL, *inputs)


# ---- attention ----
QUERY, VALUE = Input((2, 4, 3, 8), -1, 1), Input((2, 4, 5, 6), -1, 1)
KEY, SHARED = Input((2, 4, 5, 8), -1, 1), [Input((2, 2, 5, n), -1, 1) for n in (8, 6)]
attention = F.scaled_dot_product_attention
for name, fn, inputs in [
        ("attention", attention, (QUERY, KEY, VALUE)),
        ("attention_causal", lambda q, k, v: attention(q, k, v, is_causal=True, scale=0.5),
         (QUERY, KEY, VALUE)),
        ("attention_added", attention, (QUERY, KEY, VALUE, Input((4, 1, 5), -2, 2, "fixed"))),
        ("attention_seen", attention, (QUERY, KEY, VALUE, Input((2, 1, 3, 5), 0, 1, "mask"))),
        ("attention_grouped", lambda q, k, v: attention(q, k, v, enable_gqa=True),
         (QUERY, *SHARED))]:
    case(name, fn, REAL, *inputs)

golden_file.write(pathlib.Path(__file__).with_suffix(".bin"), arrays)
