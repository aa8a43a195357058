/* SPDX-License-Identifier: Apache-2.0 */
/* A file that appears whole or not at all: written beside its place, synced, renamed. */
#ifndef TS_FORMATS_OUT_H
#define TS_FORMATS_OUT_H

#include <stdint.h>
#include <tessera/status.h>

typedef struct ts_out {
    char *path;      /* where it will be, links followed */
    char *temporary; /* where it is now */
    int fd;
    uint64_t at; /* bytes so far */
    uint8_t *buffer;
    size_t used;
} ts_out;

/* TS_EIO names the path.  After TS_OK one of commit and abandon follows. */
ts_status ts_out_begin(ts_out *out, const char *path);
ts_status ts_out_write(ts_out *out, const void *data, size_t size);
ts_status ts_out_zeros(ts_out *out, size_t size);
/* The file is on the disk under its name when this returns TS_OK; else nothing has changed. */
ts_status ts_out_commit(ts_out *out);
void ts_out_abandon(ts_out *out);

#endif
