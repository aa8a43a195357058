/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "formats/little.h"
#include "formats/pickle.h"
#include "formats/pickle_ops.h"

static void append(ts_pickle_writer *w, const void *data, size_t size)
{
    if (w->failed) return;
    if (size > w->capacity - w->size) {
        size_t capacity = w->size + size > 2 * w->capacity ? w->size + size + 256 : 2 * w->capacity;
        void *grown = ts_grow(w->data, capacity, 1);
        if (!grown) {
            w->failed = true;
            return;
        }
        w->data = grown;
        w->capacity = capacity;
    }
    if (size > 0) memcpy(w->data + w->size, data, size);
    w->size += size;
}

void ts_pickle_write_op(ts_pickle_writer *w, char op) { append(w, &op, 1); }

static void op_with_number(ts_pickle_writer *w, int op, uint64_t number, size_t bytes)
{
    uint8_t code[9] = {(uint8_t)op};
    ts_put_little(code + 1, number, bytes);
    append(w, code, 1 + bytes);
}

void ts_pickle_write_int(ts_pickle_writer *w, int64_t value)
{
    if (value >= 0 && value < 256) {
        op_with_number(w, OP_BININT1, (uint64_t)value, 1);
    } else if (value == (int32_t)value) {
        op_with_number(w, OP_BININT, (uint64_t)value, 4);
    } else {
        uint8_t number[8];
        ts_put_little(number, (uint64_t)value, 8);
        op_with_number(w, OP_LONG1, 8, 1);
        append(w, number, 8);
    }
}

void ts_pickle_write_double(ts_pickle_writer *w, double value)
{
    uint64_t bits;
    uint8_t code[9] = {OP_BINFLOAT};
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 8; i++) code[1 + i] = (uint8_t)(bits >> (56 - 8 * i));
    append(w, code, sizeof code);
}

void ts_pickle_write_text(ts_pickle_writer *w, const char *text, size_t size)
{
    op_with_number(w, OP_BINUNICODE, size, 4);
    append(w, text, size);
}

void ts_pickle_write_global(ts_pickle_writer *w, const char *module, const char *name)
{
    ts_pickle_write_op(w, OP_GLOBAL);
    append(w, module, strlen(module));
    append(w, "\n", 1);
    append(w, name, strlen(name));
    append(w, "\n", 1);
}
