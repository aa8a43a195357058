/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/pickle.h"

#include <stdlib.h>

#include "test.h"

static const ts_pickle_global names[] = {
    {"collections", "OrderedDict", TS_PICKLE_MAKES_DICT}, {"a", "b", 7}, {NULL, NULL, 0}};

#define READ(p, text) ts_pickle_read(p, text, sizeof(text) - 1, names)

TS_TEST(pickle_numbers_of_any_length)
{
    static const int64_t values[] = {0,         1,        255,           256,        -1,
                                     65535,     65536,    -2147483648LL, 2147483647, 2147483648LL,
                                     INT64_MAX, INT64_MIN};
    ts_pickle p;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        ts_pickle_writer w = {0};
        ts_pickle_write_int(&w, values[i]);
        ts_pickle_write_op(&w, '.');
        TS_PASS(ts_pickle_read(&p, w.data, w.size, names));
        TS_EXPECT(p.root->kind == TS_PICKLE_INT);
        TS_EXPECT_INT(p.root->integer, values[i]);
        ts_pickle_free(&p);
        free(w.data);
    }
    TS_PASS(READ(&p, "\x8a\x02\x00\xff.")); /* -256 */
    TS_EXPECT_INT(p.root->integer, -256);
    ts_pickle_free(&p);
    TS_PASS(READ(&p, "\x8a\x00.")); /* no bytes: 0 */
    TS_EXPECT_INT(p.root->integer, 0);
    ts_pickle_free(&p);
    TS_FAIL(READ(&p, "\x8a\x09\0\0\0\0\0\0\0\x80\x00."), TS_EFORMAT, "64 bits");
}

TS_TEST(pickle_refuses_what_is_not_data)
{
    ts_pickle p;
    TS_FAIL(READ(&p, "\x80\x02"
                     "cos\nsystem\nU\x02ls\x85R."),
            TS_EFORMAT, "'os.system'");
    TS_FAIL(READ(&p, "\x80\x04\x8c\x02os\x8c\x06system\x93."), TS_EFORMAT, "'os.system'");
    TS_FAIL(READ(&p, "\x80\x09."), TS_EFORMAT, "protocol");
    TS_FAIL(READ(&p, "I1\n."), TS_EFORMAT, "opcode 0x49");
    TS_FAIL(READ(&p, ""), TS_EFORMAT, "ends within");
    TS_FAIL(READ(&p, "."), TS_EFORMAT, "without a value");
    TS_FAIL(READ(&p, "NN."), TS_EFORMAT, "left over");
    TS_FAIL(READ(&p, "(N."), TS_EFORMAT, "left over");
    TS_FAIL(READ(&p, "t."), TS_EFORMAT, "without its mark");
    TS_FAIL(READ(&p, "(\x85."), TS_EFORMAT, "mark in it");
    TS_FAIL(READ(&p, "}(Nu."), TS_EFORMAT, "key without a value");
    TS_FAIL(READ(&p, "NNa."), TS_EFORMAT, "no list");
    TS_FAIL(READ(&p, "Nh\x05."), TS_EFORMAT, "stands for nothing");
    TS_FAIL(READ(&p, "Nr\xff\xff\xff\xff."), TS_EFORMAT, "proportion");
    TS_FAIL(READ(&p, "X\xff\xff\xff\x7f"
                     "a."),
            TS_EFORMAT, "ends within");
    TS_FAIL(READ(&p, "X\x01\0\0\0\xff."), TS_EFORMAT, "not UTF-8");
    TS_FAIL(READ(&p, "N)R."), TS_EFORMAT, "no name");
    TS_FAIL(READ(&p, "N}b."), TS_EFORMAT, "attributes");
    TS_FAIL(READ(&p, "ccollections\nOrderedDict\n(NtR."), TS_EFORMAT, "from arguments");
}

TS_TEST(pickle_values_are_shared_and_may_contain_themselves)
{
    ts_pickle p;
    TS_PASS(READ(&p, "]q\x00h\x00"
                     "a.")); /* l = []; l.append(l) */
    TS_EXPECT(p.root->kind == TS_PICKLE_LIST && p.root->item[0] == p.root);
    ts_pickle_free(&p);
    TS_PASS(READ(&p, "ca\nb\n(K\x01tR."));
    TS_EXPECT(p.root->kind == TS_PICKLE_CALL && p.root->global == 7 && p.root->count == 1);
    ts_pickle_free(&p);
}
