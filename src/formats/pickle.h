/* SPDX-License-Identifier: Apache-2.0 */
/* Python's pickles, as far as they are data: protocols 2 to 5 with the opcodes for numbers, text,
 * bytes, lists, tuples and dicts.  Objects are made by name only from a table that the caller gives,
 * as descriptions; nothing is executed. */
#ifndef TS_FORMATS_PICKLE_H
#define TS_FORMATS_PICKLE_H

#include <stdint.h>
#include <tessera/status.h>

/* ---- reading --------------------------------------------------------------------------------- */

typedef enum ts_pickle_kind {
    TS_PICKLE_NONE = 0,
    TS_PICKLE_BOOL = 1,
    TS_PICKLE_INT = 2,
    TS_PICKLE_FLOAT = 3,
    TS_PICKLE_TEXT = 4, /* UTF-8 has been checked */
    TS_PICKLE_BYTES = 5,
    TS_PICKLE_TUPLE = 6,
    TS_PICKLE_LIST = 7,
    TS_PICKLE_DICT = 8,        /* items: key, value, key, value, ... */
    TS_PICKLE_GLOBAL = 9,      /* a name of the table */
    TS_PICKLE_PERSISTENT = 10, /* item[0]: what the caller is to find outside the pickle */
    TS_PICKLE_CALL = 11        /* of a global with its arguments as items */
} ts_pickle_kind;

typedef struct ts_pickle_value ts_pickle_value;
struct ts_pickle_value {
    ts_pickle_kind kind;
    int global; /* code of GLOBAL and CALL */
    int64_t integer;
    double real;
    const char *text; /* TEXT and BYTES, within the input: not terminated */
    size_t size;
    ts_pickle_value **item; /* a value can be in several places, also in itself */
    int64_t count, capacity;
    void *made; /* for the caller */
};

typedef struct ts_pickle_global {
    const char *module, *name;
    int code; /* TS_PICKLE_MAKES_DICT: a call without arguments gives a dict; else > 0 */
} ts_pickle_global;
#define TS_PICKLE_MAKES_DICT (-1)

typedef struct ts_pickle {
    ts_pickle_value *root;
    struct ts_pickle_block *blocks; /* what the values lie in */
    size_t used;                    /* bytes of the input up to its end */
} ts_pickle;

/* Reads one pickle from the start of data, which must outlive the result; takes memory in proportion
 * to size.  globals ends with a NULL module.  TS_EFORMAT names the byte. */
ts_status ts_pickle_read(ts_pickle *pickle, const void *data, size_t size,
                         const ts_pickle_global *globals);
void ts_pickle_free(ts_pickle *pickle);

/* ---- writing: protocol 2, one opcode after the other ------------------------------------------ */

typedef struct ts_pickle_writer {
    uint8_t *data; /* yours to free */
    size_t size, capacity;
    bool failed; /* no memory */
} ts_pickle_writer;

void ts_pickle_write_op(ts_pickle_writer *w, char op);
void ts_pickle_write_int(ts_pickle_writer *w, int64_t value);
void ts_pickle_write_double(ts_pickle_writer *w, double value);
void ts_pickle_write_text(ts_pickle_writer *w, const char *text, size_t size); /* < 4 GiB */
void ts_pickle_write_global(ts_pickle_writer *w, const char *module, const char *name);

#endif
