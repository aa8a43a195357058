/* SPDX-License-Identifier: Apache-2.0 */
/* The rank's generator and random fills. */
#include "tensor/random.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/thread.h"
#include "kernels/convert.h"
#include "tensor/factory_impl.h"

/* ---- the generator --------------------------------------------------------------------------- */

typedef struct generator {
    pthread_mutex_t lock;
    ts_generator_state state;
} generator;

static void *create(ts_rank_ctx *rank)
{
    (void)rank;
    generator *g = ts_calloc(1, sizeof *g);
    if (g) pthread_mutex_init(&g->lock, NULL);
    return g;
}

static void destroy(void *value)
{
    generator *g = value;
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* Sets the state if `to` is given, else moves the offset by `step`; returns the state before.
 * Without memory for a generator the state is the initial one. */
static ts_generator_state exchange(const ts_generator_state *to, uint64_t step)
{
    generator *g = ts_rank_slot_get(ts_rank_current(), TS_SLOT_GENERATOR, create, destroy);
    if (!g) return (ts_generator_state){0, 0};
    pthread_mutex_lock(&g->lock);
    ts_generator_state before = g->state;
    if (to)
        g->state = *to;
    else
        g->state.offset += step;
    pthread_mutex_unlock(&g->lock);
    return before;
}

void ts_manual_seed(uint64_t seed) { exchange(&(ts_generator_state){seed, 0}, 0); }

ts_generator_state ts_generator_get_state(void) { return exchange(NULL, 0); }

void ts_generator_set_state(ts_generator_state state) { exchange(&state, 0); }

ts_generator_state ts_generator_reserve(int64_t n)
{
    return exchange(NULL, ((uint64_t)n + 3) & ~(uint64_t)3);
}

/* ---- fills ----------------------------------------------------------------------------------- */

enum { PIECE = 512, GRAIN = 1 << 14 };

/* What to draw.  Uniform: a + u (b - a), at most limit; normal: a + b z; integers: [low, low +
 * range). */
typedef struct draw {
    enum { UNIFORM, NORMAL, INTEGER } kind;
    double a, b, limit;
    int64_t low;
    uint64_t range;
    ts_generator_state state;
    char *to; /* contiguous */
    ts_dtype dtype;
} draw;

static inline double lower(double a, double b) { return a < b ? a : b; }
static inline float lower_f(float a, float b) { return a < b ? a : b; }

static void draw_f64(const draw *d, double *out, int64_t n, uint64_t first)
{
    if (d->kind == NORMAL) {
        ts_kernel_normal_f64(out, n, d->state.seed, first);
        for (int64_t i = 0; i < n; i++) out[i] = d->a + d->b * out[i];
    } else {
        ts_kernel_uniform_f64(out, n, d->state.seed, first);
        for (int64_t i = 0; i < n; i++) out[i] = lower(d->a + (d->b - d->a) * out[i], d->limit);
    }
}

static void draw_f32(const draw *d, float *out, int64_t n, uint64_t first)
{
    float a = (float)d->a, b = (float)d->b, scale = (float)(d->b - d->a), limit = (float)d->limit;
    if (d->kind == NORMAL) {
        ts_kernel_normal_f32(out, n, d->state.seed, first);
        for (int64_t i = 0; i < n; i++) out[i] = a + b * out[i];
    } else {
        ts_kernel_uniform_f32(out, n, d->state.seed, first);
        for (int64_t i = 0; i < n; i++) out[i] = lower_f(a + scale * out[i], limit);
    }
}

/* At most PIECE values, made in float32, float64 or int64 and converted. */
static void draw_piece(const draw *d, int64_t begin, int64_t n)
{
    union {
        float f32[PIECE];
        double f64[PIECE];
        int64_t i64[PIECE];
    } value;
    uint64_t first = d->state.offset + (uint64_t)begin;
    ts_dtype made = d->kind == INTEGER       ? TS_INT64
                    : d->dtype == TS_FLOAT64 ? TS_FLOAT64
                                             : TS_FLOAT32;
    if (made == TS_INT64)
        ts_kernel_uniform_i64(value.i64, n, d->state.seed, first, d->low, d->range);
    else if (made == TS_FLOAT64)
        draw_f64(d, value.f64, n, first);
    else
        draw_f32(d, value.f32, n, first);
    ts_kernel_convert(d->dtype, made)(d->to + begin * (int64_t)ts_dtype_size(d->dtype), &value, n);
}

static void draw_range(int64_t begin, int64_t end, void *user)
{
    for (int64_t at = begin; at < end; at += PIECE)
        draw_piece(user, at, end - at < PIECE ? end - at : PIECE);
}

static void draw_contiguous(draw *d, ts_tensor *t)
{
    d->to = ts_tensor_bytes(t);
    d->dtype = (ts_dtype)t->dtype;
    ts_parallel_for(t->numel, GRAIN, draw_range, d);
}

/* Value i goes to the i-th element in row-major order, wherever it lies. */
static ts_status draw_into(draw *d, ts_tensor *t)
{
    d->state = ts_generator_reserve(t->numel);
    if (t->numel == 0 || t->device == TS_META) return TS_OK;
    if (t->contiguous) return draw_contiguous(d, t), TS_OK;
    ts_spec spec = ts_tensor_spec(t);
    ts_tensor *flat = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OTHER);
    ts_status status = ts_tensor_check(flat, "random");
    if (status == TS_OK) {
        draw_contiguous(d, flat);
        status = ts_tensor_copy_data(t, flat);
    }
    ts_release(flat);
    return status;
}

/* The largest number of dtype below high; high itself if low equals it. */
static double last_below(double low, double high, ts_dtype dtype)
{
    if (low == high) return high;
    if (dtype == TS_FLOAT64) return nextafter(high, low);
    if (dtype == TS_FLOAT32) {
        float nearest = (float)high;
        return nearest < high ? nearest : nextafterf(nearest, (float)low);
    }
    int digits = dtype == TS_FLOAT16 ? 11 : 8, exponent;
    frexp(high, &exponent);
    double ulp = ldexp(1, exponent - digits - 1); /* below a power of two; finer than needed else */
    for (double below = high - ulp;; below -= ulp) {
        float back, wide = (float)below;
        uint16_t half;
        ts_kernel_convert(dtype, TS_FLOAT32)(&half, &wide, 1);
        ts_kernel_convert(TS_FLOAT32, dtype)(&back, &half, 1);
        if (back < high) return back;
    }
}

static ts_status check_fill(const char *op, ts_tensor *t)
{
    TS_TRY(ts_tensor_check_writable(op, t));
    if (!ts_dtype_is_floating((ts_dtype)t->dtype))
        return ts_fail(TS_EDTYPE, "%s: needs a floating tensor, not %s", op,
                       ts_dtype_name((ts_dtype)t->dtype));
    if (t->keys & TS_KEY_AUTOGRAD && !(ts_thread()->mode & TS_MODE_NO_GRAD))
        return ts_fail(TS_ESTATE, "%s: the tensor requires grad; fill it inside ts_no_grad", op);
    return TS_OK;
}

static ts_tensor *fill(const char *op, ts_tensor *t, draw *d)
{
    if (!t) return ts_fail_tensor(TS_EINVAL, "%s: the tensor is missing (NULL)", op);
    if (ts_failed(t)) return t;
    ts_status status = check_fill(op, t);
    if (status == TS_OK) {
        d->limit = d->kind == UNIFORM ? last_below(d->a, d->b, (ts_dtype)t->dtype) : 0;
        ts_tensor_bump(t);
        status = draw_into(d, t);
    }
    return status == TS_OK ? t : ts_fail_tensor_last(status);
}

ts_tensor *ts_uniform_(ts_tensor *t, double low, double high)
{
    if (!(low <= high) || !isfinite(high - low))
        return ts_fail_tensor(TS_EINVAL, "uniform_: from %g to %g is not a range", low, high);
    return fill("uniform_", t, &(draw){.kind = UNIFORM, .a = low, .b = high});
}

ts_tensor *ts_normal_(ts_tensor *t, double mean, double std)
{
    if (!(std >= 0)) return ts_fail_tensor(TS_EINVAL, "normal_: std %g is negative", std);
    return fill("normal_", t, &(draw){.kind = NORMAL, .a = mean, .b = std});
}

/* ---- new tensors ----------------------------------------------------------------------------- */

/* A new tensor may require grad: it is filled before anyone sees it. */
static ts_tensor *make_filled(const char *op, ts_shape shape, const ts_tensor_options *opt, draw *d)
{
    ts_tensor *t = ts_make(op, shape, opt, TS_FLOAT32);
    if (ts_failed(t)) return t;
    uint32_t keys = t->keys;
    t->keys = 0;
    ts_tensor *result = fill(op, t, d);
    t->keys = keys;
    return result;
}

ts_tensor *ts_rand(ts_shape shape, const ts_tensor_options *opt)
{
    return make_filled("rand", shape, opt, &(draw){.kind = UNIFORM, .a = 0, .b = 1});
}

ts_tensor *ts_randn(ts_shape shape, const ts_tensor_options *opt)
{
    return make_filled("randn", shape, opt, &(draw){.kind = NORMAL, .a = 0, .b = 1});
}

/* Do all of low .. high - 1 exist in dtype? */
static bool holds(ts_dtype dtype, int64_t low, int64_t high)
{
    switch (dtype) {
    case TS_INT8: return low >= INT8_MIN && high - 1 <= INT8_MAX;
    case TS_UINT8: return low >= 0 && high - 1 <= UINT8_MAX;
    case TS_INT16: return low >= INT16_MIN && high - 1 <= INT16_MAX;
    case TS_INT32: return low >= INT32_MIN && high - 1 <= INT32_MAX;
    case TS_BOOL: return low >= 0 && high <= 2;
    case TS_COMPLEX64:
    case TS_COMPLEX128: return false;
    default: return true;
    }
}

ts_tensor *ts_randint(int64_t low, int64_t high, ts_shape shape, const ts_tensor_options *opt)
{
    ts_dtype dtype = opt ? opt->dtype : TS_INT64;
    if (low >= high)
        return ts_fail_tensor(TS_EINVAL, "randint: there is no number from %lld to below %lld",
                              (long long)low, (long long)high);
    if (!holds(dtype, low, high))
        return ts_fail_tensor(TS_EDTYPE, "randint: %s does not hold all of %lld .. %lld",
                              ts_dtype_name(dtype), (long long)low, (long long)high - 1);
    ts_tensor *t = ts_make("randint", shape, opt, TS_INT64);
    if (ts_failed(t)) return t;
    draw d = {.kind = INTEGER, .low = low, .range = (uint64_t)high - (uint64_t)low};
    ts_status status = draw_into(&d, t);
    return status == TS_OK ? t : ts_fail_tensor_last(status);
}

ts_status ts_permutation(int64_t *out, int64_t n, uint64_t seed)
{
    if (n < 0 || (n > 0 && !out))
        return ts_fail(TS_EINVAL, "permutation: %lld elements at %p", (long long)n, (void *)out);
    for (int64_t i = 0; i < n; i++) out[i] = i;
    int64_t bits[PIECE];
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t at = (n - 1 - i) % PIECE;
        if (at == 0) {
            int64_t count = i < PIECE ? i : PIECE;
            ts_kernel_uniform_i64(bits, count, seed, (uint64_t)(n - 1 - i), 0, 0);
        }
        int64_t j = (int64_t)ts_scale_bits((uint64_t)bits[at], (uint64_t)(i + 1));
        int64_t swap = out[i];
        out[i] = out[j];
        out[j] = swap;
    }
    return TS_OK;
}

/* One number of the generator chooses the permutation. */
ts_tensor *ts_randperm(int64_t n, const ts_tensor_options *opt)
{
    if (n < 0) return ts_fail_tensor(TS_ESHAPE, "randperm: n is %lld", (long long)n);
    if (opt && !holds(opt->dtype, 0, n > 0 ? n : 1))
        return ts_fail_tensor(TS_EDTYPE, "randperm: %s does not hold all of 0 .. %lld",
                              ts_dtype_name(opt->dtype), (long long)n - 1);
    ts_tensor *key = ts_randint(0, INT64_MAX, TS_SHAPE(1), NULL);
    ts_tensor *t = ts_make("randperm", TS_SHAPE(n), NULL, TS_INT64);
    if (ts_failed(key)) return key;
    if (ts_failed(t)) return t;
    const int64_t *seed = (const int64_t *)(const void *)ts_tensor_bytes(key);
    ts_status status = ts_permutation((int64_t *)(void *)ts_tensor_bytes(t), n, (uint64_t)*seed);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    if (!opt) return t;
    ts_tensor *to = ts_make("randperm", TS_SHAPE(n), opt, TS_INT64);
    if (!ts_failed(to) && to->device == TS_CPU) status = ts_tensor_copy_data(to, t);
    return status == TS_OK ? to : ts_fail_tensor_last(status);
}
