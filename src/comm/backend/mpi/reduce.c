/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions.  MPI's own operations where they mean the same as ours, so that networks that reduce
 * can do so; ours for bool and for MIN and MAX of floating numbers, where a NaN must win.  16-bit
 * floating types are summed as float32 and rounded once at the end. */
#include <string.h>

#include "engine.h"

ts_dtype reduce_dtype(ts_dtype dtype)
{
    return dtype == TS_FLOAT16 || dtype == TS_BFLOAT16 ? TS_FLOAT32 : dtype;
}

MPI_Datatype reduce_type(ts_dtype dtype)
{
    switch (dtype) {
    case TS_FLOAT32: return MPI_FLOAT;
    case TS_FLOAT64: return MPI_DOUBLE;
    case TS_INT8: return MPI_INT8_T;
    case TS_UINT8: return MPI_UINT8_T;
    case TS_INT16: return MPI_INT16_T;
    case TS_INT32: return MPI_INT32_T;
    case TS_INT64: return MPI_INT64_T;
    case TS_BOOL: return MPI_C_BOOL;
    case TS_COMPLEX64: return MPI_C_FLOAT_COMPLEX;
    case TS_COMPLEX128: return MPI_C_DOUBLE_COMPLEX;
    default: return MPI_DATATYPE_NULL;
    }
}

/* ---- our own operations ---------------------------------------------------------------------- */

static void combine(void *in, void *out, const int *count, const MPI_Datatype *type,
                    ts_reduce_op op)
{
    const void *from[2] = {in, out};
    for (int d = 0; d < TS_NUM_DTYPES; d++)
        if (reduce_type((ts_dtype)d) == *type && *type != MPI_DATATYPE_NULL) {
            mpi.host->combine(out, from, 2, *count, (ts_dtype)d, op);
            return;
        }
}

#define OWN_OPS(X) X(SUM) X(PRODUCT) X(MIN) X(MAX) X(BAND) X(BOR) X(BXOR)
#define X(name)                                                                                    \
    static void combine_##name(void *in, void *out, int *count, MPI_Datatype *type)                \
    {                                                                                              \
        combine(in, out, count, type, TS_##name);                                                  \
    }
OWN_OPS(X)
#undef X

static MPI_Op own_op[TS_PREMUL_SUM + 1];

void reduce_make_ops(void)
{
#define X(name) MPI_Op_create(combine_##name, 1, &own_op[TS_##name]);
    OWN_OPS(X)
#undef X
}

void reduce_free_ops(void)
{
#define X(name) MPI_Op_free(&own_op[TS_##name]);
    OWN_OPS(X)
#undef X
}

MPI_Op reduce_op_for(ts_dtype dtype, ts_reduce_op op)
{
    bool floating = dtype == TS_FLOAT32 || dtype == TS_FLOAT64;
    if (op == TS_AVG) op = TS_SUM;
    if (dtype == TS_BOOL) return own_op[op];
    switch (op) {
    case TS_SUM: return MPI_SUM;
    case TS_PRODUCT: return MPI_PROD;
    case TS_MIN: return floating ? own_op[op] : MPI_MIN;
    case TS_MAX: return floating ? own_op[op] : MPI_MAX;
    case TS_BAND: return MPI_BAND;
    case TS_BOR: return MPI_BOR;
    default: return MPI_BXOR;
    }
}

/* ---- one piece ------------------------------------------------------------------------------- */

void reduce_finish(const group *g, const ts_coll *coll, void *out, void *sum, int64_t count)
{
    ts_dtype dtype = reduce_dtype(coll->dtype);
    if (coll->reduce == TS_AVG) mpi.host->divide(sum, count, dtype, g->size);
    if (dtype != coll->dtype)
        mpi.host->convert(out, coll->dtype, sum, dtype, count);
    else if (out != sum)
        memcpy(out, sum, (size_t)count * mpi.host->dtype_size(dtype));
}

/* data holds this rank's elements and, where the result goes, the result. */
static ts_status reduce_in_place(group *g, const ts_coll *coll, void *data, int64_t count, int root)
{
    ts_dtype dtype = reduce_dtype(coll->dtype);
    MPI_Datatype type = reduce_type(dtype);
    MPI_Op op = reduce_op_for(dtype, coll->reduce);
    if (root < 0)
        GO(g, coll,
           MPI_Iallreduce(MPI_IN_PLACE, data, (int)count, type, op, g->collective, &request));
    else if (root == g->rank)
        GO(g, coll,
           MPI_Ireduce(MPI_IN_PLACE, data, (int)count, type, op, root, g->collective, &request));
    else
        GO(g, coll, MPI_Ireduce(data, NULL, (int)count, type, op, root, g->collective, &request));
    return TS_OK;
}

static ts_status reduce_piece(group *g, const ts_coll *coll, const void *in, void *out,
                              int64_t count, int root)
{
    size_t bytes = (size_t)count * mpi.host->dtype_size(coll->dtype);
    bool result_here = root < 0 || root == g->rank;
    if (reduce_dtype(coll->dtype) == coll->dtype) {
        if (result_here && out != in) memmove(out, in, bytes);
        void *data = result_here ? out : (void *)(uintptr_t)in;
        TRY(reduce_in_place(g, coll, data, count, root));
        if (result_here) reduce_finish(g, coll, out, out, count);
        return TS_OK;
    }
    char *wide = group_scratch(g, (size_t)count * sizeof(float));
    if (!wide) return group_give_up(g, TS_ENOMEM);
    mpi.host->convert(wide, TS_FLOAT32, in, coll->dtype, count);
    TRY(reduce_in_place(g, coll, wide, count, root));
    if (result_here) reduce_finish(g, coll, out, wide, count);
    return TS_OK;
}

ts_status reduce_block(group *g, const ts_coll *coll, const void *in, void *out, int64_t count,
                       int root)
{
    size_t size = mpi.host->dtype_size(coll->dtype);
    int64_t step = mpi.limit / 16;
    for (int64_t at = 0; at < count; at += step) {
        int64_t length = count - at < step ? count - at : step;
        TRY(reduce_piece(g, coll, (const char *)in + (size_t)at * size,
                         out ? (char *)out + (size_t)at * size : NULL, length, root));
    }
    return TS_OK;
}
