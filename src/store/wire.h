/* SPDX-License-Identifier: Apache-2.0 */
/* The wire protocol of PyTorch's TCPStore.
 *
 * A request is a command byte and its fields: numbers in native byte order, texts and values as a
 * 64-bit length and the bytes, lists as a 64-bit count and the fields of each item.  A connection
 * begins with VALIDATE.  Commands that only write have no reply. */
#ifndef TS_STORE_WIRE_H
#define TS_STORE_WIRE_H

#include "store/table.h"

/* X(name, number, fields): k key, v value, i 64-bit number, w 32-bit word, * a count, then as many
 * times what follows. */
#define TS_WIRE_COMMANDS(X)                                                                        \
    X(VALIDATE, 0, "w")                                                                            \
    X(SET, 1, "kv")                                                                                \
    X(COMPARE_SET, 2, "kvv")                                                                       \
    X(GET, 3, "k")                                                                                 \
    X(ADD, 4, "ki")                                                                                \
    X(CHECK, 5, "*k")                                                                              \
    X(WAIT, 6, "*k")                                                                               \
    X(GETNUMKEYS, 7, "")                                                                           \
    X(DELETE_KEY, 8, "k")                                                                          \
    X(APPEND, 9, "kv")                                                                             \
    X(MULTI_GET, 10, "*k")                                                                         \
    X(MULTI_SET, 11, "*kv")                                                                        \
    X(CANCEL_WAIT, 12, "")                                                                         \
    X(PING, 13, "w")                                                                               \
    X(QUEUE_PUSH, 14, "kv")                                                                        \
    X(QUEUE_POP, 15, "k")                                                                          \
    X(QUEUE_LEN, 16, "k")                                                                          \
    X(LIST_KEYS, 17, "")                                                                           \
    X(BARRIER, 18, "ki")

typedef enum ts_wire_command {
#define X(name, number, fields) TS_WIRE_##name = number,
    TS_WIRE_COMMANDS(X)
#undef X
        TS_WIRE_COMMAND_COUNT
} ts_wire_command;

#define TS_WIRE_MAGIC UINT32_C(0x3C85F7CE)

/* Replies to CHECK, and to WAIT and CANCEL_WAIT. */
enum {
    TS_WIRE_READY = 0,
    TS_WIRE_NOT_READY = 1,
    TS_WIRE_STOP_WAITING = 0,
    TS_WIRE_WAIT_CANCELED = 1
};

/* Bounds of what a server takes. */
enum {
    TS_WIRE_MAX_KEY = 8 * 1024,
    TS_WIRE_MAX_VALUE = 8 * 1024 * 1024,
    TS_WIRE_MAX_KEYS = 128 * 1024
};
#define TS_WIRE_MAX_REQUEST ((size_t)1 << 30) /* and of a reply */

/* A growing block of bytes to send. */
typedef struct ts_buffer {
    char *data;
    size_t size, capacity;
    bool failed; /* out of memory or too large: what was put in is not complete */
} ts_buffer;

void ts_buffer_put(ts_buffer *buffer, const void *data, size_t size);
void ts_buffer_put_byte(ts_buffer *buffer, int byte);
void ts_buffer_put_u32(ts_buffer *buffer, uint32_t value);
void ts_buffer_put_i64(ts_buffer *buffer, int64_t value);
void ts_buffer_put_bytes(ts_buffer *buffer, ts_bytes bytes); /* with its length in front */
void ts_buffer_drop(ts_buffer *buffer, size_t size);         /* the first bytes */
void ts_buffer_fini(ts_buffer *buffer);

/* Finds the end of a request that arrives in pieces.  Begin with zeroes, give all bytes from the
 * start of the request each time; what was seen is not looked at again. */
typedef struct ts_wire_scan {
    const char *fields; /* of the command; NULL: the command has not come yet */
    const char *next;   /* the field at hand */
    uint64_t repeats;   /* items still to come after this one */
    size_t at;
} ts_wire_scan;
/* > 0: size of the request, which is complete; 0: more is needed; -1: malformed, *why says how. */
int64_t ts_wire_find_end(ts_wire_scan *scan, const char *data, size_t size, const char **why);

/* Takes the fields of a complete request one by one. */
typedef struct ts_wire_reader {
    const char *at;
} ts_wire_reader;
ts_bytes ts_wire_bytes(ts_wire_reader *reader);
int64_t ts_wire_i64(ts_wire_reader *reader);
uint32_t ts_wire_u32(ts_wire_reader *reader);

#endif
