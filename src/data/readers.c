/* SPDX-License-Identifier: Apache-2.0 */
/* idx, MNIST and CIFAR files. */
#include <stdlib.h>
#include <string.h>
#include <tessera/data.h>
#include <tessera/scope.h>

#include "base/memory.h"
#include "tensor/tensor.h"

/* A mapped file of the scope. */
static ts_status open_file(const uint8_t **data, size_t *size, const char *path)
{
    ts_tensor *file = ts_map_file(path);
    TS_TRY(ts_tensor_check(file, "the file"));
    *data = ts_data(file);
    *size = ts_nbytes(file);
    if (*size >= 2 && (*data)[0] == 0x1f && (*data)[1] == 0x8b)
        return ts_fail(TS_EUNSUPPORTED, "read: '%s' is packed; unpack it with gunzip", path);
    return TS_OK;
}

static ts_status new_tensor(ts_tensor **out, ts_shape shape, ts_dtype dtype)
{
    ts_spec spec = {shape, dtype, TS_CPU};
    *out = ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OTHER);
    return ts_tensor_check(*out, "read: a tensor");
}

/* ---- idx (yann.lecun.com/exdb/mnist): two zeros, type, dimensions, sizes and numbers big-endian ---- */

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int idx_dtype(uint8_t code)
{
    switch (code) {
    case 0x08: return TS_UINT8;
    case 0x09: return TS_INT8;
    case 0x0B: return TS_INT16;
    case 0x0C: return TS_INT32;
    case 0x0D: return TS_FLOAT32;
    case 0x0E: return TS_FLOAT64;
    default: return -1;
    }
}

static void copy_swapped(char *to, const uint8_t *from, size_t count, size_t each)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < each; k++) to[i * each + k] = (char)from[i * each + (each - 1 - k)];
}

static ts_status parse_idx(ts_tensor **out, const uint8_t *data, size_t size, const char *path)
{
    if (size < 4 || data[0] || data[1] || idx_dtype(data[2]) < 0 || data[3] > TS_MAX_DIMS)
        return ts_fail(TS_EFORMAT, "idx_read: '%s' is not an idx file", path);
    ts_dtype dtype = (ts_dtype)idx_dtype(data[2]);
    ts_shape shape = {.ndim = data[3]};
    size_t head = 4 + 4 * (size_t)data[3], each = ts_dtype_size(dtype);
    if (size < head) return ts_fail(TS_EFORMAT, "idx_read: '%s' ends within its head", path);
    for (int d = 0; d < shape.ndim; d++) shape.dim[d] = big32(data + 4 + 4 * d);
    int64_t numel = ts_shape_numel(shape);
    if (numel < 0 || (size - head) % each != 0 || (size - head) / each != (size_t)numel)
        return ts_fail(TS_EFORMAT,
                       "idx_read: '%s' has %zu bytes of numbers, not those of its sizes", path,
                       size - head);
    TS_TRY(new_tensor(out, shape, dtype));
    if (numel > 0) copy_swapped(ts_tensor_bytes(*out), data + head, (size_t)numel, each);
    return TS_OK;
}

ts_status ts_idx_read(ts_tensor **out, const char *path)
{
    const uint8_t *data;
    size_t size;
    ts_tensor *t = NULL;
    ts_scope scope = ts_scope_begin();
    ts_status status = open_file(&data, &size, path);
    if (status == TS_OK) status = parse_idx(&t, data, size, path);
    t = ts_scope_end_keep(scope, status == TS_OK ? t : NULL);
    if (status == TS_OK) *out = t;
    return status;
}

/* Both, in the scope. */
static ts_status read_both(ts_tensor **images, ts_tensor **labels, const char *folder,
                           const char *part)
{
    char *image_path = ts_asprintf("%s/%s-images-idx3-ubyte", folder, part);
    char *label_path = ts_asprintf("%s/%s-labels-idx1-ubyte", folder, part);
    ts_status status = image_path && label_path ? ts_idx_read(images, image_path)
                                                : ts_fail_memory(strlen(folder), "a path");
    if (status == TS_OK) status = ts_idx_read(labels, label_path);
    free(image_path);
    free(label_path);
    return status;
}

ts_status ts_mnist_read(ts_tensor **images, ts_tensor **labels, const char *folder, bool train)
{
    ts_tensor *x = NULL, *y = NULL, *wide = NULL;
    if (!folder) return ts_fail(TS_EINVAL, "mnist_read: the folder is missing (NULL)");
    TS_TRY(read_both(&x, &y, folder, train ? "train" : "t10k"));
    if (x->shape.ndim != 3 || y->shape.ndim != 1 || x->shape.dim[0] != y->shape.dim[0] ||
        x->dtype != TS_UINT8 || y->dtype != TS_UINT8)
        return ts_fail(TS_EFORMAT, "mnist_read: images and labels in '%s' do not fit together",
                       folder);
    TS_TRY(new_tensor(&wide, y->shape, TS_INT64));
    TS_TRY(ts_tensor_copy_data(wide, y));
    *images = x;
    *labels = wide;
    return TS_OK;
}

/* ---- CIFAR (cs.toronto.edu/~kriz/cifar.html): records of labels and 3072 bytes ------------------ */

enum { PIXELS = 3 * 32 * 32 };

typedef struct cifar {
    ts_tensor *images, *label[2];
    int labels; /* bytes before the pixels: the last one is the fine label */
    int64_t count;
} cifar;

static ts_status count_records(int64_t *count, size_t size, int labels, const char *path)
{
    size_t record = (size_t)labels + PIXELS;
    if (size % record != 0)
        return ts_fail(TS_EFORMAT,
                       "cifar_read: '%s' has %zu bytes, no whole number of records of %zu", path,
                       size, record);
    *count = (int64_t)(size / record);
    return TS_OK;
}

static void take_records(cifar *c, const uint8_t *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++, c->count++) {
        for (int k = 0; k < c->labels; k++)
            ((int64_t *)(void *)ts_tensor_bytes(c->label[k]))[c->count] = *data++;
        memcpy(ts_tensor_bytes(c->images) + c->count * PIXELS, data, PIXELS);
        data += PIXELS;
    }
}

/* First the files are counted, then read. */
static ts_status read_cifar(cifar *c, char *const *path, int n)
{
    const uint8_t *data[5];
    int64_t count[5], total = 0;
    size_t size;
    for (int i = 0; i < n; i++) {
        TS_TRY(open_file(&data[i], &size, path[i]));
        TS_TRY(count_records(&count[i], size, c->labels, path[i]));
        total += count[i];
    }
    TS_TRY(new_tensor(&c->images, TS_SHAPE(total, 3, 32, 32), TS_UINT8));
    for (int k = 0; k < c->labels; k++) TS_TRY(new_tensor(&c->label[k], TS_SHAPE(total), TS_INT64));
    for (int i = 0; i < n; i++) take_records(c, data[i], count[i]);
    return TS_OK;
}

/* The results outlive the scope of the mapped files. */
static ts_status read_cifar_scoped(cifar *c, char *const *path, int n)
{
    ts_scope scope = ts_scope_begin();
    ts_status status = read_cifar(c, path, n);
    ts_tensor *all[] = {c->images, c->label[0], c->label[1]};
    for (int i = 0; status == TS_OK && i < 3; i++) ts_retain(all[i]);
    ts_scope_end(scope);
    for (int i = 0; status == TS_OK && i < 3; i++)
        if (all[i]) ts_scope_give(all[i]);
    return status;
}

static ts_status read_named(cifar *c, const char *folder, const char *format, int n)
{
    char *path[5] = {0};
    ts_status status = TS_OK;
    if (!folder) return ts_fail(TS_EINVAL, "cifar_read: the folder is missing (NULL)");
    for (int i = 0; i < n && status == TS_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%.0d%s", format, n > 1 ? i + 1 : 0, ".bin");
        path[i] = ts_asprintf("%s/%s", folder, name);
        if (!path[i]) status = ts_fail_memory(strlen(folder), "a path");
    }
    if (status == TS_OK) status = read_cifar_scoped(c, path, n);
    for (int i = 0; i < n; i++) free(path[i]);
    return status;
}

ts_status ts_cifar10_read(ts_tensor **images, ts_tensor **labels, const char *folder, bool train)
{
    cifar c = {.labels = 1};
    TS_TRY(read_named(&c, folder, train ? "data_batch_" : "test_batch", train ? 5 : 1));
    *images = c.images;
    *labels = c.label[0];
    return TS_OK;
}

ts_status ts_cifar100_read(ts_tensor **images, ts_tensor **fine, ts_tensor **coarse,
                           const char *folder, bool train)
{
    cifar c = {.labels = 2};
    TS_TRY(read_named(&c, folder, train ? "train" : "test", 1));
    *images = c.images;
    *fine = c.label[1];
    if (coarse) *coarse = c.label[0];
    return TS_OK;
}
