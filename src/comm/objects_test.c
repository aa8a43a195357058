/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "test.h"

/* Its text, in one of a few static buffers per thread; frees the object. */
static const char *text_of(ts_object *o)
{
    static _Thread_local char buf[4][512];
    static _Thread_local int next;
    char *to = buf[next++ % 4], *text = ts_object_to_string(o);
    snprintf(to, sizeof buf[0], "%s", text ? text : "no text");
    free(text);
    ts_object_free(o);
    return to;
}

/* A text, a number and a map with one entry. */
static ts_object *sample(int i)
{
    if (i % 3 == 0) return ts_object_text("foo");
    if (i % 3 == 1) return ts_object_int(12);
    return ts_object_set(ts_object_map(), "1", ts_object_int(2));
}
static const char *const sample_text[3] = {"\"foo\"", "12", "{\"1\": 2}"};

static void free_all(ts_object **list, int n)
{
    for (int i = 0; i < n; i++) ts_object_free(list[i]);
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void every_collective(ts_test *test)
{
    int size = test->size, rank = test->rank;
    ts_object *list[8] = {0}, *own = sample(rank), *out = NULL;
    for (int i = 0; rank == 0 && i < 3; i++) list[i] = sample(i);
    TS_PASS(ts_broadcast_object_list(NULL, list, 3, 0));
    for (int i = 0; i < 3; i++) TS_EXPECT_STR(text_of(list[i]), sample_text[i]);

    TS_PASS(ts_all_gather_object(test->group, list, size, own));
    for (int i = 0; i < size; i++) TS_EXPECT_STR(text_of(list[i]), sample_text[i % 3]);

    bool root = rank == size - 1;
    TS_PASS(ts_gather_object(test->group, root ? list : NULL, root ? size : 0, own, size - 1));
    for (int i = 0; root && i < size; i++) TS_EXPECT_STR(text_of(list[i]), sample_text[i % 3]);

    for (int i = 0; i < size; i++) list[i] = rank == 1 % size ? sample(i) : NULL;
    TS_PASS(ts_scatter_object_list(test->group, &out, list, size, TS_GROUP_RANK(1 % size)));
    TS_EXPECT_STR(text_of(out), sample_text[rank % 3]);
    if (rank == 1 % size) free_all(list, size);
    ts_object_free(own);
}

TS_TEST(objects_through_every_collective, .ranks = 3) { every_collective(test); }
TS_TEST(objects_through_every_collective_alone, .ranks = 1) { every_collective(test); }
TS_TEST(objects_through_every_collective_hosts, .ranks = 4, .hosts = 2) { every_collective(test); }

/* Sizes from nothing to megabytes in one call. */
static void uneven(ts_test *test)
{
    int size = test->size;
    size_t bytes[3] = {0, 3000000, 70}, got;
    char *data = calloc(1, bytes[1]);
    ts_object *list[3];
    const void *at;
    TS_EXPECT(data);
    memset(data, 'a' + test->rank, bytes[1]);
    ts_object *own = ts_object_bytes(data, bytes[test->rank]);
    TS_PASS(ts_all_gather_object(test->group, list, size, own));
    for (int i = 0; i < size; i++) {
        TS_PASS(ts_object_as_bytes(list[i], &at, &got));
        TS_EXPECT_INT(got, bytes[i]);
        memset(data, 'a' + i, got);
        TS_EXPECT(memcmp(data, at, got) == 0);
    }
    free_all(list, size);
    ts_object_free(own);
    free(data);
}

TS_TEST(objects_of_uneven_sizes, .ranks = 3) { uneven(test); }
TS_TEST(objects_of_uneven_sizes_hosts, .ranks = 3, .hosts = 3) { uneven(test); }

TS_TEST(objects_with_tensors, .ranks = 2)
{
    ts_object *o = NULL;
    ts_tensor *t = ts_transpose(ts_arange(0, 6, 1, NULL), 0, 0);
    if (test->rank == 1) o = ts_object_append(ts_object_list(), ts_object_tensor(t));
    TS_PASS(ts_broadcast_object_list(test->group, &o, 1, 1));
    TS_EXPECT_EQUAL(ts_object_as_tensor(ts_object_at(o, 0)), t);
    ts_object_free(o);
}

TS_TEST(objects_none_and_null, .ranks = 2)
{
    ts_object *list[2];
    TS_PASS(ts_broadcast_object_list(test->group, NULL, 0, 0));
    TS_PASS(ts_all_gather_object(test->group, list, 2, NULL));
    for (int i = 0; i < 2; i++) TS_EXPECT_STR(text_of(list[i]), "null");
}

/* What is wrong on one rank, every rank learns; the group stays usable. */
TS_TEST(objects_errors_reach_every_rank, .ranks = 3)
{
    bool bad = test->rank == 1;
    ts_object *list[3] = {0}, *out = NULL, *own = sample(0), *failed = ts_object_text("\xff");
    ts_status own_status = bad ? TS_EINVAL : TS_EREMOTE;
    TS_FAIL(ts_all_gather_object(NULL, list, 3, bad ? failed : own), own_status, "not UTF-8");
    TS_FAIL(ts_all_gather_object(NULL, bad ? NULL : list, 3, own), own_status,
            "all_gather_object: the list has 0 entries, but the group 3 ranks");
    TS_FAIL(
        ts_gather_object(NULL, test->rank ? NULL : list, test->rank ? 0 : 3, bad ? failed : own, 0),
        own_status, "not UTF-8");
    TS_FAIL(ts_gather_object(NULL, test->rank == 2 ? NULL : list, test->rank == 2 ? 0 : 3, own, 0),
            own_status, "which is not the destination");
    TS_FAIL(ts_scatter_object_list(NULL, &out, NULL, 0, 1), own_status, "the list has 0 entries");
    TS_FAIL(ts_scatter_object_list(NULL, bad ? NULL : &out, NULL, 0, 2),
            bad || test->rank == 2 ? TS_EINVAL : TS_EREMOTE, "scatter_object_list: ");
    TS_FAIL(ts_broadcast_object_list(NULL, list, 1, bad ? 7 : 0), own_status,
            "rank 7 is not a member");
    ts_object_free(own);
    ts_object_free(failed);
    every_collective(test);
}

TS_TEST(objects_calls_are_compared, .ranks = 3)
{
    ts_object *list[3] = {0}, *own = sample(0);
    if (test->rank == 2)
        TS_FAIL(ts_all_gather_object(NULL, list, 3, own), TS_EMISMATCH,
                "rank 0 calls broadcast_object_list with root 0 and 2 objects, rank 2 "
                "all_gather_object");
    else
        TS_FAIL(ts_broadcast_object_list(NULL, list, 2, 0), TS_EMISMATCH, "all_gather_object");
    TS_FAIL(ts_broadcast_object_list(NULL, list, test->rank == 1 ? 2 : 3, 0), TS_EMISMATCH,
            "root 0 and 3 objects, rank 1 broadcast_object_list with root 0 and 2");
    TS_FAIL(ts_broadcast_object_list(NULL, list, 1, test->rank == 1), TS_EMISMATCH, "root 1");
    ts_object_free(own);
    every_collective(test);
}

/* The limit is a rank's own; the others learn. */
TS_TEST(objects_limit, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    ts_object *list[2], *own = ts_object_bytes("0123456789", 10), *out;
    bool bad = test->rank == 1;
    if (bad) setenv("TESSERA_OBJECT_LIMIT", "20", 1);
    TS_FAIL(ts_all_gather_object(NULL, list, 2, own), bad ? TS_ENOMEM : TS_EREMOTE,
            "24 bytes or more would arrive, but TESSERA_OBJECT_LIMIT is 20");
    if (bad) setenv("TESSERA_OBJECT_LIMIT", "5", 1);
    list[0] = list[1] = own;
    TS_FAIL(ts_scatter_object_list(NULL, &out, list, 2, 0), bad ? TS_ENOMEM : TS_EREMOTE, "is 5");
    TS_FAIL(ts_broadcast_object_list(NULL, list, 2, 0), bad ? TS_ENOMEM : TS_EREMOTE, "is 5");
    if (bad) {
        TS_FAIL(ts_recv_object_list(NULL, list, 1, 0, 3, NULL), TS_ENOMEM, "is 5");
        unsetenv("TESSERA_OBJECT_LIMIT");
        TS_PASS(ts_recv_object_list(NULL, &out, 1, 0, 3, NULL));
        TS_EXPECT_STR(text_of(out), "12");
    } else {
        ts_object *twelve = ts_object_int(12);
        TS_PASS(ts_send_object_list(NULL, &own, 1, 1, 3));
        TS_PASS(ts_send_object_list(NULL, &twelve, 1, 1, 3));
        ts_object_free(twelve);
    }
    ts_object_free(own);
}

/* Nothing comes from other ranks there: null objects, or copies of this rank's own. */
TS_TEST(objects_over_the_fake_backend)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    ts_object *list[3], *own = sample(1), *out;
    opt.backend = "fake";
    opt.rank = 1;
    opt.world_size = 3;
    TS_PASS(ts_init_process_group(&opt));
    TS_PASS(ts_broadcast_object_list(NULL, list, 2, 0));
    for (int i = 0; i < 2; i++) TS_EXPECT_STR(text_of(list[i]), "null");
    TS_PASS(ts_all_gather_object(NULL, list, 3, own));
    for (int i = 0; i < 3; i++) TS_EXPECT_STR(text_of(list[i]), "12");
    TS_PASS(ts_scatter_object_list(NULL, &out, NULL, 0, 0));
    TS_EXPECT_STR(text_of(out), "null");
    TS_PASS(ts_send_object_list(NULL, &own, 1, 2, 0));
    TS_PASS(ts_recv_object_list(NULL, &out, 1, 2, 0, NULL));
    TS_EXPECT_STR(text_of(out), "null");
    TS_PASS(ts_destroy_process_group(NULL));
    ts_object_free(own);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void send_three(ts_test *test)
{
    ts_object *list[3] = {0};
    int from = -1;
    if (test->rank == 0) {
        for (int i = 0; i < 3; i++) list[i] = sample(i);
        TS_PASS(ts_send_object_list(NULL, list, 3, 1, 0));
        free_all(list, 3);
        return;
    }
    TS_PASS(ts_recv_object_list(NULL, list, 3, 0, 0, &from));
    TS_EXPECT_INT(from, 0);
    for (int i = 0; i < 3; i++) TS_EXPECT_STR(text_of(list[i]), sample_text[i]);
}

TS_TEST(objects_in_a_message, .ranks = 2) { send_three(test); }
TS_TEST(objects_in_a_message_hosts, .ranks = 2, .hosts = 2) { send_three(test); }

/* Lengths and bytes come from the same rank, however many send at once. */
TS_TEST(objects_from_any, .ranks = 4)
{
    int64_t value;
    if (test->rank > 0) {
        for (int i = 0; i < 10; i++) {
            ts_object *own = ts_object_append(ts_object_list(), ts_object_int(test->rank));
            for (int k = 0; k < test->rank * 100; k++) ts_object_append(own, ts_object_int(i));
            TS_PASS(ts_send_object_list(NULL, &own, 1, 0, 5));
            ts_object_free(own);
        }
        return;
    }
    int count[4] = {0}, from;
    for (int i = 0; i < 30; i++) {
        ts_object *o = NULL;
        TS_PASS(ts_recv_object_list(NULL, &o, 1, TS_ANY_SOURCE, 5, &from));
        TS_PASS(ts_object_as_int(ts_object_at(o, 0), &value));
        TS_EXPECT_INT(value, from);
        TS_EXPECT_INT(ts_object_count(o), from * 100 + 1);
        TS_PASS(ts_object_as_int(ts_object_at(o, from * 100), &value));
        TS_EXPECT_INT(value, count[from]++);
        ts_object_free(o);
    }
}

/* Larger than the pieces it travels in; then refused, and the next message is understood. */
TS_TEST(objects_in_long_messages, .ranks = 2)
{
    size_t bytes = 9 << 20, got;
    const void *at;
    char *data = malloc(bytes);
    TS_EXPECT(data);
    for (size_t i = 0; i < bytes; i++) data[i] = (char)(i * 7 >> 3);
    ts_object *list[2] = {ts_object_bytes(data, bytes), NULL};
    if (test->rank == 0) {
        TS_PASS(ts_send_object_list(NULL, list, 1, 1, 0));
        TS_PASS(ts_send_object_list(NULL, list, 1, 1, 0));
        TS_PASS(ts_send_object_list(NULL, list, 2, 1, 0));
    } else {
        ts_object_free(list[0]);
        TS_FAIL(ts_recv_object_list(NULL, list, 2, 0, 0, NULL), TS_EMISMATCH,
                "rank 0 sent 1 objects, but 2 were expected");
        TS_PASS(ts_recv_object_list(NULL, list, 1, TS_ANY_SOURCE, 0, NULL));
        TS_PASS(ts_object_as_bytes(list[0], &at, &got));
        TS_EXPECT(got == bytes && memcmp(at, data, got) == 0);
        ts_object_free(list[0]);
        TS_PASS(ts_recv_object_list(NULL, list, 2, 0, 0, NULL));
        TS_EXPECT_INT(ts_object_kind_of(list[1]), TS_OBJECT_NULL);
    }
    free_all(list, 2);
    free(data);
}

TS_TEST(objects_messages_checks, .ranks = 2)
{
    ts_object *own = sample(0), *failed = ts_object_text("\xff"), *out;
    TS_FAIL(ts_send_object_list(NULL, &own, 0, !test->rank, 0), TS_EINVAL, "empty");
    TS_FAIL(ts_send_object_list(NULL, NULL, 1, !test->rank, 0), TS_EINVAL, "missing");
    TS_FAIL(ts_send_object_list(NULL, &own, 1, test->rank, 0), TS_EINVAL, "itself");
    TS_FAIL(ts_send_object_list(NULL, &failed, 1, test->rank, 0), TS_EINVAL, "not UTF-8");
    TS_FAIL(ts_recv_object_list(NULL, &out, 1, test->rank, 0, NULL), TS_EINVAL, "itself");
    if (test->rank == 0) {
        TS_FAIL(ts_send_object_list(NULL, &failed, 1, 1, 0), TS_EINVAL, "not UTF-8");
        TS_PASS(ts_send_object_list(NULL, &own, 1, 1, 0));
    } else {
        TS_FAIL(ts_recv_object_list(NULL, &out, 1, 0, 0, NULL), TS_EREMOTE,
                "rank 0 had nothing to send: object_text: byte 0 is not UTF-8");
        TS_PASS(ts_recv_object_list(NULL, &out, 1, 0, 0, NULL));
        TS_EXPECT_STR(text_of(out), "\"foo\"");
    }
    ts_object_free(own);
    ts_object_free(failed);
}

/* ---- what the log tells ---------------------------------------------------------------------- */

typedef struct payloads {
    char encoded[64], decoded[64];
} payloads;

static void take_payload(ts_log_severity severity, const char *component, const char *line,
                         void *user)
{
    payloads *p = user;
    const char *encoded = strstr(line, "objects encoded: "), *there = strstr(line, "decode: ");
    (void)severity, (void)component;
    if (encoded) snprintf(p->encoded, sizeof p->encoded, "%s", strchr(encoded, ':'));
    if (there) snprintf(p->decoded, sizeof p->decoded, "%s", strchr(there, ':'));
}

/* Both ends see the same bytes. */
TS_TEST(objects_are_logged_with_size_and_hash, .ranks = 1, .mode = TS_TEST_PROCESSES)
{
    payloads p = {"", ""};
    ts_object *out[1] = {NULL}, *own = ts_object_text("hello");
    ts_set_log_sink(take_payload, &p);
    setenv("TORCH_CPP_LOG_LEVEL", "INFO", 1);
    TS_PASS(ts_set_debug_level(TS_DEBUG_INFO));
    TS_PASS(ts_all_gather_object(NULL, out, 1, own));
    ts_object_free(out[0]);
    TS_EXPECT_STR(p.encoded, "");
    TS_PASS(ts_set_debug_level(TS_DEBUG_DETAIL));
    TS_PASS(ts_all_gather_object(NULL, out, 1, own));
    TS_EXPECT_TEXT(p.encoded, "1 in 7 bytes, hash ");
    TS_EXPECT_STR(p.encoded, p.decoded);
    ts_object_free(out[0]);
    ts_object_free(own);
    ts_set_log_sink(NULL, NULL);
}
