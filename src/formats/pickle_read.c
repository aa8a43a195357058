/* SPDX-License-Identifier: Apache-2.0 */
/* A stack machine whose values are descriptions. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "formats/little.h"
#include "formats/pickle.h"
#include "formats/pickle_ops.h"
#include "formats/utf8.h"

/* ---- where values lie ------------------------------------------------------------------------ */

enum { BLOCK_VALUES = 256 };

typedef struct ts_pickle_block {
    struct ts_pickle_block *next;
    int used;
    ts_pickle_value value[BLOCK_VALUES];
} ts_pickle_block;

typedef struct machine {
    ts_pickle *pickle;
    const uint8_t *data;
    size_t size, at, op_at; /* op_at: of the opcode that runs */
    const ts_pickle_global *globals;
    ts_vec stack;
    ts_pickle_value **memo;
    size_t memo_size, memo_next;
    bool stopped;
} machine;

static ts_status damaged(const machine *m, const char *what)
{
    return ts_fail(TS_EFORMAT, "pickle: byte %zu: %s", m->op_at, what);
}

static ts_status no_memory(void)
{
    return ts_fail_memory(sizeof(ts_pickle_value), "the values of a pickle");
}

static ts_pickle_value *new_value(machine *m, ts_pickle_kind kind)
{
    ts_pickle_block *block = m->pickle->blocks;
    if (!block || block->used == BLOCK_VALUES) {
        block = malloc(sizeof *block);
        if (!block) return NULL;
        block->used = 0;
        block->next = m->pickle->blocks;
        m->pickle->blocks = block;
    }
    ts_pickle_value *v = &block->value[block->used++];
    *v = (ts_pickle_value){.kind = kind};
    return v;
}

void ts_pickle_free(ts_pickle *pickle)
{
    for (ts_pickle_block *block = pickle->blocks, *next; block; block = next) {
        next = block->next;
        for (int i = 0; i < block->used; i++) free(block->value[i].item);
        free(block);
    }
    *pickle = (ts_pickle){0};
}

/* ---- the stack, where NULL is a mark --------------------------------------------------------- */

static ts_status push(machine *m, ts_pickle_value *v)
{
    return ts_vec_push(&m->stack, v) ? TS_OK : no_memory();
}

static ts_status push_new(machine *m, ts_pickle_kind kind, ts_pickle_value **out)
{
    ts_pickle_value *v = new_value(m, kind);
    if (!v) return no_memory();
    if (out) *out = v;
    return push(m, v);
}

static ts_status top(ts_pickle_value **out, const machine *m)
{
    *out = m->stack.count > 0 ? m->stack.item[m->stack.count - 1] : NULL;
    return *out ? TS_OK : damaged(m, "an opcode without a value to work on");
}

static ts_status pop(ts_pickle_value **out, machine *m)
{
    TS_TRY(top(out, m));
    m->stack.count--;
    return TS_OK;
}

/* The values above the last mark, and the mark, leave the stack; they stay readable until the next
 * push. */
static ts_status pop_mark(ts_pickle_value ***values, int64_t *count, machine *m)
{
    int64_t at = m->stack.count;
    while (at > 0 && m->stack.item[at - 1]) at--;
    if (at == 0) return damaged(m, "an opcode without its mark");
    *values = (ts_pickle_value **)m->stack.item + at;
    *count = m->stack.count - at;
    m->stack.count = at - 1;
    return TS_OK;
}

static ts_status add_items(ts_pickle_value *to, ts_pickle_value **values, int64_t count)
{
    if (count > to->capacity - to->count) {
        int64_t capacity =
            to->count + count > 2 * to->capacity ? to->count + count : 2 * to->capacity;
        void *grown = ts_grow(to->item, (size_t)capacity, sizeof *to->item);
        if (!grown) return no_memory();
        to->item = grown;
        to->capacity = capacity;
    }
    if (count > 0) memcpy(to->item + to->count, values, (size_t)count * sizeof *values);
    to->count += count;
    return TS_OK;
}

/* ---- reading the input ----------------------------------------------------------------------- */

static ts_status take(const uint8_t **out, machine *m, uint64_t bytes)
{
    if (bytes > m->size - m->at) return damaged(m, "the pickle ends within an opcode");
    *out = m->data + m->at;
    m->at += (size_t)bytes;
    return TS_OK;
}

static ts_status take_number(uint64_t *out, machine *m, size_t bytes)
{
    const uint8_t *p = NULL;
    TS_TRY(take(&p, m, bytes));
    *out = ts_little(p, bytes);
    return TS_OK;
}

static ts_status take_line(const char **out, size_t *size, machine *m)
{
    const char *begin = (const char *)m->data + m->at;
    const char *end = memchr(begin, '\n', m->size - m->at);
    if (!end) return damaged(m, "the pickle ends within a name");
    *out = begin;
    *size = (size_t)(end - begin);
    m->at += *size + 1;
    return TS_OK;
}

static ts_status read_string(machine *m, ts_pickle_kind kind, size_t length_bytes)
{
    uint64_t size = 0;
    const uint8_t *p = NULL;
    ts_pickle_value *v;
    TS_TRY(take_number(&size, m, length_bytes));
    TS_TRY(take(&p, m, size));
    if (kind == TS_PICKLE_TEXT && !ts_utf8_valid((const char *)p, (size_t)size, NULL))
        return damaged(m, "the text is not UTF-8");
    TS_TRY(push_new(m, kind, &v));
    v->text = (const char *)p;
    v->size = (size_t)size;
    return TS_OK;
}

static ts_status read_int(machine *m, size_t bytes)
{
    uint64_t number = 0;
    ts_pickle_value *v;
    TS_TRY(take_number(&number, m, bytes));
    TS_TRY(push_new(m, TS_PICKLE_INT, &v));
    v->integer = bytes == 4 ? (int32_t)number : (int64_t)number;
    return TS_OK;
}

/* Two's complement of any length; what follows 8 bytes may only repeat the sign. */
static ts_status read_long(machine *m, size_t length_bytes)
{
    uint64_t size = 0;
    const uint8_t *p = NULL;
    ts_pickle_value *v;
    TS_TRY(take_number(&size, m, length_bytes));
    TS_TRY(take(&p, m, size));
    bool negative = size > 0 && p[size - 1] & 0x80;
    uint64_t number = negative ? UINT64_MAX : 0;
    for (uint64_t i = 0; i < size; i++) {
        uint8_t sign = negative ? 0xFF : 0;
        if (i >= 8 && p[i] != sign) return damaged(m, "the int does not fit in 64 bits");
        if (i < 8) number = (number & ~(UINT64_C(0xFF) << 8 * i)) | (uint64_t)p[i] << 8 * i;
    }
    if (size > 8 && (number >> 63 != 0) != negative)
        return damaged(m, "the int does not fit in 64 bits");
    TS_TRY(push_new(m, TS_PICKLE_INT, &v));
    v->integer = (int64_t)number;
    return TS_OK;
}

static ts_status read_double(machine *m)
{
    const uint8_t *p = NULL;
    uint64_t bits = 0;
    ts_pickle_value *v;
    TS_TRY(take(&p, m, 8));
    for (int i = 0; i < 8; i++) bits = bits << 8 | p[i];
    TS_TRY(push_new(m, TS_PICKLE_FLOAT, &v));
    memcpy(&v->real, &bits, sizeof bits);
    return TS_OK;
}

/* ---- containers ------------------------------------------------------------------------------ */

static ts_status make_tuple(machine *m, int64_t count)
{
    if (m->stack.count < count) return damaged(m, "a tuple of more values than there are");
    ts_pickle_value **values = (ts_pickle_value **)m->stack.item + m->stack.count - count;
    for (int64_t i = 0; i < count; i++)
        if (!values[i]) return damaged(m, "a tuple with a mark in it");
    ts_pickle_value *v = new_value(m, TS_PICKLE_TUPLE);
    if (!v) return no_memory();
    TS_TRY(add_items(v, values, count));
    m->stack.count -= count;
    return push(m, v);
}

/* TUPLE, LIST and DICT: what stands above the mark becomes one value. */
static ts_status make_marked(machine *m, ts_pickle_kind kind)
{
    ts_pickle_value **values, *v = new_value(m, kind);
    int64_t count;
    if (!v) return no_memory();
    TS_TRY(pop_mark(&values, &count, m));
    if (kind == TS_PICKLE_DICT && count % 2) return damaged(m, "a dict key without a value");
    TS_TRY(add_items(v, values, count));
    return push(m, v);
}

static ts_status append_to(machine *m, ts_pickle_kind kind, ts_pickle_value **values, int64_t count)
{
    ts_pickle_value *v;
    TS_TRY(top(&v, m));
    if (v->kind != kind)
        return damaged(m, kind == TS_PICKLE_LIST ? "appending to what is no list"
                                                 : "setting items of what is no dict");
    if (kind == TS_PICKLE_DICT && count % 2) return damaged(m, "a dict key without a value");
    return add_items(v, values, count);
}

static ts_status append_marked(machine *m, ts_pickle_kind kind)
{
    ts_pickle_value **values;
    int64_t count;
    TS_TRY(pop_mark(&values, &count, m));
    return append_to(m, kind, values, count);
}

static ts_status append_fixed(machine *m, ts_pickle_kind kind, int64_t count)
{
    ts_pickle_value *values[2];
    for (int64_t i = count; i-- > 0;) TS_TRY(pop(&values[i], m));
    return append_to(m, kind, values, count);
}

/* ---- names and calls ------------------------------------------------------------------------- */

static bool same(const char *text, const char *given, size_t size)
{
    return strlen(text) == size && memcmp(text, given, size) == 0;
}

static ts_status push_global(machine *m, const char *module, size_t module_size, const char *name,
                             size_t name_size)
{
    ts_pickle_value *v;
    for (const ts_pickle_global *g = m->globals; g->module; g++)
        if (same(g->module, module, module_size) && same(g->name, name, name_size)) {
            TS_TRY(push_new(m, TS_PICKLE_GLOBAL, &v));
            v->global = g->code;
            return TS_OK;
        }
    return ts_fail(TS_EFORMAT,
                   "pickle: byte %zu: the file asks for '%.*s.%.*s', which is not data; only "
                   "tensors, numbers, text, lists and dicts are read",
                   m->op_at, (int)(module_size < 200 ? module_size : 200), module,
                   (int)(name_size < 200 ? name_size : 200), name);
}

static ts_status read_global(machine *m)
{
    const char *module, *name;
    size_t module_size, name_size;
    TS_TRY(take_line(&module, &module_size, m));
    TS_TRY(take_line(&name, &name_size, m));
    if (!ts_utf8_valid(module, module_size + 1 + name_size, NULL))
        return damaged(m, "a name that is not UTF-8");
    return push_global(m, module, module_size, name, name_size);
}

static ts_status stack_global(machine *m)
{
    ts_pickle_value *name, *module;
    TS_TRY(pop(&name, m));
    TS_TRY(pop(&module, m));
    if (name->kind != TS_PICKLE_TEXT || module->kind != TS_PICKLE_TEXT)
        return damaged(m, "a name that is not text");
    return push_global(m, module->text, module->size, name->text, name->size);
}

static ts_status call(machine *m)
{
    ts_pickle_value *args, *what, *v;
    TS_TRY(pop(&args, m));
    TS_TRY(pop(&what, m));
    if (what->kind != TS_PICKLE_GLOBAL || args->kind != TS_PICKLE_TUPLE)
        return damaged(m, "a call of what is no name");
    if (what->global == TS_PICKLE_MAKES_DICT) {
        if (args->count > 0) return damaged(m, "an OrderedDict made from arguments");
        return push_new(m, TS_PICKLE_DICT, NULL);
    }
    TS_TRY(push_new(m, TS_PICKLE_CALL, &v));
    v->global = what->global;
    return add_items(v, args->item, args->count);
}

/* Attributes of a dict: PyTorch keeps versions of modules there, which nothing needs. */
static ts_status build(machine *m)
{
    ts_pickle_value *state, *v;
    TS_TRY(pop(&state, m));
    TS_TRY(top(&v, m));
    return v->kind == TS_PICKLE_DICT ? TS_OK : damaged(m, "attributes of what is no dict");
}

static ts_status persistent(machine *m)
{
    ts_pickle_value *id, *v;
    TS_TRY(pop(&id, m));
    TS_TRY(push_new(m, TS_PICKLE_PERSISTENT, &v));
    return add_items(v, &id, 1);
}

/* ---- the memo -------------------------------------------------------------------------------- */

/* Pickles number their values one after the other, so there are fewer numbers than bytes. */
static ts_status remember(machine *m, uint64_t number)
{
    ts_pickle_value *v;
    TS_TRY(top(&v, m));
    if (number > m->size) return damaged(m, "a memo number out of all proportion");
    if (number >= m->memo_size) {
        size_t size = number < m->memo_size * 2 ? m->memo_size * 2 : (size_t)number + 64;
        void *grown = ts_grow(m->memo, size, sizeof *m->memo);
        if (!grown) return no_memory();
        m->memo = grown;
        memset(m->memo + m->memo_size, 0, (size - m->memo_size) * sizeof *m->memo);
        m->memo_size = size;
    }
    m->memo[number] = v;
    return TS_OK;
}

static ts_status put(machine *m, size_t bytes)
{
    uint64_t number = 0;
    TS_TRY(take_number(&number, m, bytes));
    return remember(m, number);
}

static ts_status get(machine *m, size_t bytes)
{
    uint64_t number = 0;
    TS_TRY(take_number(&number, m, bytes));
    if (number >= m->memo_size || !m->memo[number])
        return damaged(m, "a memo number that stands for nothing");
    return push(m, m->memo[number]);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static ts_status stop(machine *m)
{
    TS_TRY(pop(&m->pickle->root, m));
    if (m->stack.count > 0) return damaged(m, "the end, with values left over");
    m->stopped = true;
    return TS_OK;
}

static ts_status push_bool(machine *m, bool value)
{
    ts_pickle_value *v;
    TS_TRY(push_new(m, TS_PICKLE_BOOL, &v));
    v->integer = value;
    return TS_OK;
}

static ts_status drop(machine *m)
{
    if (m->stack.count == 0) return damaged(m, "an opcode without a value to work on");
    m->stack.count--;
    return TS_OK;
}

static ts_status protocol(machine *m)
{
    uint64_t number = 0;
    TS_TRY(take_number(&number, m, 1));
    return number <= 5 ? TS_OK : damaged(m, "a protocol later than 5");
}

static ts_status skip_frame(machine *m)
{
    uint64_t ignored;
    return take_number(&ignored, m, 8);
}

static ts_status run_op(machine *m, uint8_t op)
{
    switch (op) {
    case OP_PROTO: return protocol(m);
    case OP_FRAME: return skip_frame(m);
    case OP_STOP: return stop(m);
    case OP_MARK: return push(m, NULL);
    case OP_POP: return drop(m);
    case OP_NONE: return push_new(m, TS_PICKLE_NONE, NULL);
    case OP_NEWTRUE: return push_bool(m, true);
    case OP_NEWFALSE: return push_bool(m, false);
    case OP_BININT: return read_int(m, 4);
    case OP_BININT1: return read_int(m, 1);
    case OP_BININT2: return read_int(m, 2);
    case OP_LONG1: return read_long(m, 1);
    case OP_LONG4: return read_long(m, 4);
    case OP_BINFLOAT: return read_double(m);
    case OP_BINUNICODE: return read_string(m, TS_PICKLE_TEXT, 4);
    case OP_SHORT_BINUNICODE: return read_string(m, TS_PICKLE_TEXT, 1);
    case OP_BINUNICODE8: return read_string(m, TS_PICKLE_TEXT, 8);
    case OP_BINSTRING: return read_string(m, TS_PICKLE_TEXT, 4);
    case OP_SHORT_BINSTRING: return read_string(m, TS_PICKLE_TEXT, 1);
    case OP_BINBYTES: return read_string(m, TS_PICKLE_BYTES, 4);
    case OP_SHORT_BINBYTES: return read_string(m, TS_PICKLE_BYTES, 1);
    case OP_BINBYTES8: return read_string(m, TS_PICKLE_BYTES, 8);
    case OP_EMPTY_TUPLE: return push_new(m, TS_PICKLE_TUPLE, NULL);
    case OP_TUPLE1: return make_tuple(m, 1);
    case OP_TUPLE2: return make_tuple(m, 2);
    case OP_TUPLE3: return make_tuple(m, 3);
    case OP_TUPLE: return make_marked(m, TS_PICKLE_TUPLE);
    case OP_EMPTY_LIST: return push_new(m, TS_PICKLE_LIST, NULL);
    case OP_LIST: return make_marked(m, TS_PICKLE_LIST);
    case OP_APPEND: return append_fixed(m, TS_PICKLE_LIST, 1);
    case OP_APPENDS: return append_marked(m, TS_PICKLE_LIST);
    case OP_EMPTY_DICT: return push_new(m, TS_PICKLE_DICT, NULL);
    case OP_DICT: return make_marked(m, TS_PICKLE_DICT);
    case OP_SETITEM: return append_fixed(m, TS_PICKLE_DICT, 2);
    case OP_SETITEMS: return append_marked(m, TS_PICKLE_DICT);
    case OP_GLOBAL: return read_global(m);
    case OP_STACK_GLOBAL: return stack_global(m);
    case OP_REDUCE:
    case OP_NEWOBJ: return call(m);
    case OP_BUILD: return build(m);
    case OP_BINPERSID: return persistent(m);
    case OP_BINPUT: return put(m, 1);
    case OP_LONG_BINPUT: return put(m, 4);
    case OP_MEMOIZE: return remember(m, m->memo_next++);
    case OP_BINGET: return get(m, 1);
    case OP_LONG_BINGET: return get(m, 4);
    default:
        return ts_fail(TS_EFORMAT, "pickle: byte %zu: opcode 0x%02x is not one that data needs",
                       m->op_at, op);
    }
}

static ts_status run(machine *m)
{
    while (!m->stopped) {
        const uint8_t *op = NULL;
        m->op_at = m->at;
        TS_TRY(take(&op, m, 1));
        TS_TRY(run_op(m, *op));
    }
    m->pickle->used = m->at;
    return TS_OK;
}

ts_status ts_pickle_read(ts_pickle *pickle, const void *data, size_t size,
                         const ts_pickle_global *globals)
{
    *pickle = (ts_pickle){0};
    machine m = {.pickle = pickle, .data = data, .size = size, .globals = globals};
    ts_status status = run(&m);
    ts_vec_fini(&m.stack);
    free(m.memo);
    if (status != TS_OK) ts_pickle_free(pickle);
    return status;
}
