/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tensors that other programs read and write too: torch.save's and safetensors.
 *
 *     ts_object *checkpoint = ts_object_map();
 *     ts_object_set(checkpoint, "step", ts_object_int(100));
 *     ts_object_set(checkpoint, "weight", ts_object_tensor(w));
 *     ts_must(ts_save(checkpoint, "step-100.pt", NULL));
 *     ts_object *back = ts_load("step-100.pt", NULL);
 *
 * Reading checks everything and executes nothing, so files may come from anywhere.  Local; any
 * thread. */
#ifndef TESSERA_FORMATS_H
#define TESSERA_FORMATS_H

#include <tessera/object.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ts_format {
    TS_FORMAT_AUTO = 0, /* safetensors where the path ends in ".safetensors", else torch.save */
    TS_FORMAT_TORCH = 1,
    TS_FORMAT_SAFETENSORS = 2
} ts_format;

typedef struct ts_save_options {
    size_t struct_size;
    ts_format format;
    /* torch.save: keys that are whole decimal numbers become ints, as torch's optimizers have them.
     * (ts_load gives every key as text.) */
    bool integer_keys; /* false */
    /* safetensors: a map of texts.  NULL: {"format": "pt"}, which readers for PyTorch ask for. */
    const ts_object *metadata;
} ts_save_options;
#define TS_SAVE_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(ts_save_options), TS_FORMAT_AUTO, false, NULL                                       \
    }

/* Writes object to path, all or nothing: what was there stays until the new file is on the disk, and
 * a file that is mapped keeps its contents.  torch.save takes any object, and
 * torch.load(path, weights_only=True) reads it; tensors that share storage do so in the file.
 * safetensors takes one map of row-major tensors without a name inside another.
 * TS_EIO names the path; TS_EINVAL, TS_EDTYPE what cannot be written. */
TS_API ts_status ts_save(const ts_object *object, const char *path, const ts_save_options *opt);

typedef struct ts_load_options {
    size_t struct_size;
    /* true: tensors are read-only views of the mapped file, except where their numbers lie
     * unaligned in it.  A file that another program overwrites in place or cuts then changes or
     * ends under them; ts_save never does that.  false: tensors of their own, checksums verified. */
    bool mmap; /* true */
} ts_load_options;
#define TS_LOAD_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(ts_load_options), true                                                              \
    }

/* What the file at path holds; its contents say which format it has.  Dicts become maps, with
 * numbers as keys written in decimal; tuples and torch.Size lists; dtypes and devices text.  All
 * tensors come to the CPU and require no gradients.  A failed object names path and place: TS_EIO,
 * TS_EFORMAT (damaged, or it asks for anything but data), TS_EUNSUPPORTED. */
TS_API ts_object *ts_load(const char *path, const ts_load_options *opt);

/* The metadata of a safetensors file, a map of texts. */
TS_API ts_object *ts_load_metadata(const char *path);

#ifdef __cplusplus
}
#endif
#endif
