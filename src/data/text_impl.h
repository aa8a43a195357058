/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_DATA_TEXT_IMPL_H
#define TS_DATA_TEXT_IMPL_H

#include <tessera/data.h>

#include "base/memory.h"

typedef struct ts_text_file {
    const unsigned char *data; /* of the first token */
    int64_t size;              /* tokens */
    void *block;               /* all of the file */
    size_t block_bytes;
    bool mapped;      /* else read into memory of our own */
    int64_t held;     /* bytes at the end that are held out */
    int64_t start[2]; /* where its share begins in the training [0] and held-out [1] part */
} ts_text_file;

struct ts_text {
    ts_text_file *file;
    int64_t count, capacity;
    int64_t tokens[2]; /* of the parts */
    int width;         /* bytes of a token: 1, 2 or 4 */
    double holdout;
    ts_map seen; /* files and folders met while opening, by device and inode */
};

/* Adds the file or folder at path, which the caller named. */
ts_status ts_text_add(ts_text *text, const char *path);

#endif
