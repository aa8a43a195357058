/* SPDX-License-Identifier: Apache-2.0 */
/* What the tokenizers library makes of some texts (tests/golden/files.py), and texts of any bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <tessera/tokenizer.h>

#include "data/tokenizer_impl.h"
#include "test.h"

static const char *golden(const char *name)
{
    static char path[3][512];
    static int next;
    char relative[128], *to = path[next++ % 3];
    snprintf(relative, sizeof relative, "tests/golden/files/%s", name);
    snprintf(to, 512, "%s", ts_test_path(relative));
    return to;
}

/* A line of the answers: the text in hexadecimal, a colon, numbers. */
static size_t read_hex(unsigned char *to, char **at)
{
    size_t n = 0;
    unsigned byte;
    for (; **at != ':' && sscanf(*at, "%2x", &byte) == 1; *at += 2) to[n++] = (unsigned char)byte;
    ++*at;
    return n;
}

static void expect_answers(ts_test *test, const ts_tokenizer *t, const char *name)
{
    char line[8192], *text;
    int lines = 0;
    FILE *f = fopen(golden(name), "r");
    TS_EXPECT(f != NULL);
    for (; fgets(line, sizeof line, f); lines++) {
        unsigned char bytes[1024];
        char *at = line, *end;
        int64_t *ids, count;
        size_t size = read_hex(bytes, &at), back;
        TS_PASS(ts_tokenizer_encode(&ids, &count, t, bytes, size, true));
        for (int64_t i = 0; i < count; i++, at = end) {
            long want = strtol(at, &end, 10);
            if (end == at || want != ids[i])
                TS_FAIL_TEST("%s, line %d, token %lld is %lld, expected %ld", name, lines + 1,
                             (long long)i, (long long)ids[i], want);
        }
        TS_EXPECT(*at == '\n' || *at == '\0');
        TS_PASS(ts_tokenizer_decode(&text, &back, t, ids, count));
        TS_EXPECT(back == size && memcmp(text, bytes, size) == 0);
        free(text);
        free(ids);
    }
    fclose(f);
    TS_EXPECT(lines >= 15);
}

TS_TEST(tokenizer_agrees_with_the_library_on_gpt2_files)
{
    ts_tokenizer *t;
    TS_PASS(ts_tokenizer_open(&t, golden("tokenizer_gpt2.json")));
    TS_EXPECT_INT(ts_tokenizer_vocab_size(t), 420);
    TS_EXPECT_INT(ts_tokenizer_id(t, "<|end|>"), 1);
    expect_answers(test, t, "tokenizer_gpt2.txt");
    ts_tokenizer_free(t);
}

TS_TEST(tokenizer_agrees_with_the_library_on_split_numbers)
{
    ts_tokenizer *t;
    TS_PASS(ts_tokenizer_open(&t, golden("tokenizer_digits")));
    expect_answers(test, t, "tokenizer_digits.txt");
    ts_tokenizer_free(t);
}

/* vocab.json and merges.txt say the same, but for the second added token. */
TS_TEST(tokenizer_reads_vocab_and_merges)
{
    ts_tokenizer *json, *pair;
    int64_t *a, *b, n, m;
    const char *text = "hello worlds, it's training<|endoftext|>\n\n  more 123";
    TS_PASS(ts_tokenizer_open(&json, golden("tokenizer_gpt2.json")));
    TS_PASS(ts_tokenizer_open(&pair, golden("tokenizer_gpt2")));
    TS_PASS(ts_tokenizer_encode(&a, &n, json, text, strlen(text), true));
    TS_PASS(ts_tokenizer_encode(&b, &m, pair, text, strlen(text), true));
    TS_EXPECT(n == m && memcmp(a, b, (size_t)n * sizeof *a) == 0);
    free(b);
    TS_PASS(ts_tokenizer_encode(&b, &m, pair, text, strlen(text), false));
    TS_EXPECT(m > n); /* strangers' text makes no special tokens */
    free(a);
    free(b);
    ts_tokenizer_free(json);
    ts_tokenizer_free(pair);
}

/* Every byte, cut characters, surrogates, zeros: decoding gives the same bytes. */
TS_TEST(tokenizer_round_trips_any_bytes)
{
    static const char *const names[] = {"tokenizer_gpt2", "tokenizer_digits", NULL};
    static unsigned char bytes[4096];
    for (int k = 0; k < 3; k++) {
        ts_tokenizer *t;
        TS_PASS(names[k] ? ts_tokenizer_open(&t, golden(names[k])) : ts_tokenizer_bytes(&t));
        uint32_t x = 12345;
        for (int round = 0; round < 60; round++) {
            size_t size = (size_t)round * 67 % sizeof bytes, back;
            for (size_t i = 0; i < size; i++) {
                x = x * 1664525 + 1013904223;
                unsigned char mixed = (unsigned char)"\xf0\x9f\x8e \n1a"[x >> 29];
                bytes[i] = round % 3 == 0   ? (unsigned char)i
                           : round % 3 == 1 ? (unsigned char)(x >> 24)
                                            : mixed;
            }
            int64_t *ids, count;
            char *text;
            TS_PASS(ts_tokenizer_encode(&ids, &count, t, bytes, size, true));
            TS_PASS(ts_tokenizer_decode(&text, &back, t, ids, count));
            TS_EXPECT(back == size && memcmp(text, bytes, size) == 0);
            free(text);
            free(ids);
        }
        ts_tokenizer_free(t);
    }
}

/* A long run without a break takes n log n, not n squared: this would take minutes. */
TS_TEST(tokenizer_takes_long_runs, .timeout_s = 20)
{
    size_t size = 1 << 20;
    char *text = malloc(size);
    ts_tokenizer *t;
    int64_t *ids, count;
    TS_EXPECT(text != NULL);
    memset(text, 'a', size);
    TS_PASS(ts_tokenizer_open(&t, golden("tokenizer_gpt2")));
    TS_PASS(ts_tokenizer_encode(&ids, &count, t, text, size, true));
    TS_EXPECT(count < (int64_t)size / 32);
    free(ids);
    free(text);
    ts_tokenizer_free(t);
}

TS_TEST(tokenizer_splits_are_known_by_their_patterns)
{
    const uint8_t text[] = "don't  go\r\n\r\n 12345";
    TS_EXPECT_INT(ts_split_of_pattern("\\w+"), -1);
    TS_EXPECT_INT(ts_split_next(TS_SPLIT_GPT2, text, sizeof text - 1), 3);
    TS_EXPECT_INT(ts_split_next(TS_SPLIT_GPT2, text + 3, sizeof text - 4), 2);       /* 't */
    TS_EXPECT_INT(ts_split_next(TS_SPLIT_GPT2, text + 5, sizeof text - 6), 1);       /* a space */
    TS_EXPECT_INT(ts_split_next(TS_SPLIT_GPT2, text + 6, sizeof text - 7), 3);       /* " go" */
    TS_EXPECT_INT(ts_split_next(TS_SPLIT_GPT2, text + 9, sizeof text - 10), 4);      /* \r\n\r\n */
    TS_EXPECT_INT(ts_split_next(TS_SPLIT_GPT2, text + 13, sizeof text - 14), 6);     /* " 12345" */
    TS_EXPECT_INT(ts_split_next(TS_SPLIT_DIGITS_3, text + 14, sizeof text - 15), 3); /* 123 */
    TS_EXPECT_INT(ts_split_next(TS_SPLIT_DIGITS_1, text + 14, sizeof text - 15), 1); /* 1 */
}

static ts_status open_text(ts_test *test, const char *json)
{
    char path[512];
    ts_tokenizer *t = NULL;
    snprintf(path, sizeof path, "%s/tokenizer.json", test->dir);
    FILE *f = fopen(path, "w");
    fputs(json, f);
    fclose(f);
    ts_status status = ts_tokenizer_open(&t, path);
    ts_tokenizer_free(t);
    return status;
}

TS_TEST(tokenizer_says_what_it_cannot_read)
{
    ts_tokenizer *t;
    char *text;
    int64_t ids[] = {5, 256};
    TS_FAIL(open_text(test, "{"), TS_EFORMAT, "not JSON");
    TS_FAIL(open_text(test, "[]"), TS_EFORMAT, "not a JSON object");
    TS_FAIL(open_text(test, "{}"), TS_EFORMAT, "no model");
    TS_FAIL(open_text(test, "{\"normalizer\":{\"type\":\"NFC\"}}"), TS_EUNSUPPORTED,
            "normalizer NFC");
    TS_FAIL(open_text(test, "{\"model\":{\"type\":\"Unigram\"}}"), TS_EUNSUPPORTED, "Unigram");
    TS_FAIL(open_text(test, "{\"model\":{\"byte_fallback\":true}}"), TS_EUNSUPPORTED,
            "byte_fallback");
    TS_FAIL(open_text(test, "{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}"), TS_EFORMAT,
            "two tokens have the number 0");
    TS_FAIL(open_text(test, "{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}"), TS_EFORMAT,
            "number -1");
    TS_FAIL(open_text(test, "{\"model\":{\"vocab\":{\"a\":1e12},\"merges\":[]}}"), TS_EFORMAT,
            "number 1e+12");
    TS_FAIL(open_text(test, "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}"), TS_EFORMAT,
            "merge of 'a' and 'b'");
    TS_FAIL(open_text(test, "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}"), TS_EFORMAT,
            "not two tokens");
    TS_FAIL(open_text(test, "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},"
                            "\"pre_tokenizer\":{\"type\":\"Metaspace\"}}"),
            TS_EUNSUPPORTED, "Metaspace");
    TS_FAIL(open_text(test, "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},"
                            "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}"),
            TS_EUNSUPPORTED, "no token for the byte");
    TS_FAIL(ts_tokenizer_open(&t, "/no/such/folder"), TS_EIO, "/no/such/folder");
    TS_PASS(ts_tokenizer_bytes(&t));
    TS_FAIL(ts_tokenizer_decode(&text, NULL, t, ids, 2), TS_EINVAL, "number 256");
    ts_tokenizer_free(t);
}
