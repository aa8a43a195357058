/* SPDX-License-Identifier: Apache-2.0 */
/* The server's protocol, byte for byte and without sockets. */
#include "store/session.h"

#include <stdlib.h>

#include "test.h"

static void keep(ts_session *session) { (void)session; }

/* Feeds a request to a session; the replies add up in session->out. */
static bool feed(ts_session *s, ts_buffer *request)
{
    const char *why;
    bool good = ts_session_feed(s, request->data, request->size, &why);
    ts_buffer_fini(request);
    return good;
}

static bool send_keys(ts_session *s, ts_wire_command command, int n, const char *const *keys)
{
    ts_buffer b = {0};
    ts_buffer_put_byte(&b, (int)command);
    ts_buffer_put_i64(&b, n);
    for (int i = 0; i < n; i++) ts_buffer_put_bytes(&b, ts_bytes_of(keys[i]));
    return feed(s, &b);
}

static bool send_pair(ts_session *s, ts_wire_command command, const char *key, const char *value)
{
    ts_buffer b = {0};
    ts_buffer_put_byte(&b, (int)command);
    ts_buffer_put_bytes(&b, ts_bytes_of(key));
    if (value) ts_buffer_put_bytes(&b, ts_bytes_of(value));
    return feed(s, &b);
}

static bool send_number(ts_session *s, ts_wire_command command, const char *key, int64_t n)
{
    ts_buffer b = {0};
    ts_buffer_put_byte(&b, (int)command);
    ts_buffer_put_bytes(&b, ts_bytes_of(key));
    ts_buffer_put_i64(&b, n);
    return feed(s, &b);
}

static bool open_session(ts_session *s, ts_hub *hub)
{
    ts_buffer b = {0};
    ts_session_init(s, hub, NULL);
    ts_buffer_put_byte(&b, TS_WIRE_VALIDATE);
    ts_buffer_put_u32(&b, TS_WIRE_MAGIC);
    return feed(s, &b);
}

/* The session has been sent exactly these bytes since the last look. */
#define REPLIES(session, bytes)                                                                    \
    do {                                                                                           \
        ts_buffer *o_ = &(session)->out;                                                           \
        TS_EXPECT_INT(o_->size, sizeof(bytes) - 1);                                                \
        TS_EXPECT(o_->size == 0 || memcmp(o_->data, bytes, o_->size) == 0);                        \
        ts_buffer_drop(o_, o_->size);                                                              \
    } while (0)

#define STOP "\0"
#define CANCELED "\1"

TS_TEST(session_waits)
{
    ts_hub hub = {.flush = keep};
    ts_session a, b;
    const char *two[] = {"k1", "k2"}, *twice[] = {"k3", "k3"};
    TS_EXPECT(open_session(&a, &hub) && open_session(&b, &hub));
    TS_EXPECT(send_pair(&b, TS_WIRE_SET, "k1", "v"));
    TS_EXPECT(send_keys(&a, TS_WIRE_WAIT, 2, two));
    REPLIES(&a, "");
    TS_EXPECT(send_pair(&b, TS_WIRE_DELETE_KEY, "k1", NULL)); /* now both are missing */
    TS_EXPECT(send_pair(&b, TS_WIRE_SET, "k2", "v"));
    REPLIES(&a, "");
    TS_EXPECT(send_pair(&b, TS_WIRE_APPEND, "k1", "v"));
    REPLIES(&a, STOP);
    TS_EXPECT(send_keys(&a, TS_WIRE_WAIT, 2, two));
    REPLIES(&a, STOP);
    TS_EXPECT(send_keys(&a, TS_WIRE_WAIT, 2, twice));
    TS_EXPECT(send_keys(&b, TS_WIRE_WAIT, 2, twice));
    TS_EXPECT(send_number(&b, TS_WIRE_ADD, "k3", 5));
    REPLIES(&a, STOP);
    REPLIES(&b, "\1\0\0\0\0\0\0\0" STOP "\5\0\0\0\0\0\0\0");
    TS_EXPECT(send_keys(&a, TS_WIRE_WAIT, 1, &(const char *){"never"}));
    ts_buffer cancel = {0};
    ts_buffer_put_byte(&cancel, TS_WIRE_CANCEL_WAIT);
    TS_EXPECT(feed(&a, &cancel));
    REPLIES(&a, CANCELED);
    TS_EXPECT(send_pair(&b, TS_WIRE_SET, "never", ""));
    REPLIES(&a, "");
    TS_EXPECT(send_keys(&a, TS_WIRE_WAIT, 1, &(const char *){"lost"}));
    ts_session_fini(&a); /* its wait goes with it */
    TS_EXPECT(send_pair(&b, TS_WIRE_SET, "lost", ""));
    ts_session_fini(&b);
    TS_EXPECT_INT(hub.table.keys, hub.table.entries); /* no empty entries stay behind */
    ts_hub_fini(&hub);
}

TS_TEST(session_queue_wakes_one)
{
    ts_hub hub = {.flush = keep};
    ts_session a, b, c;
    const char *q = "q";
    TS_EXPECT(open_session(&a, &hub) && open_session(&b, &hub) && open_session(&c, &hub));
    TS_EXPECT(send_keys(&a, TS_WIRE_WAIT, 1, &q));
    TS_EXPECT(send_keys(&b, TS_WIRE_WAIT, 1, &q));
    TS_EXPECT(send_pair(&c, TS_WIRE_QUEUE_PUSH, q, "one"));
    REPLIES(&a, STOP); /* the one that waits longest */
    REPLIES(&b, "");
    TS_EXPECT(send_pair(&c, TS_WIRE_QUEUE_PUSH, q, "two"));
    REPLIES(&b, STOP);
    TS_EXPECT(send_pair(&c, TS_WIRE_QUEUE_LEN, q, NULL));
    REPLIES(&c, "\2\0\0\0\0\0\0\0");
    TS_EXPECT(send_pair(&a, TS_WIRE_QUEUE_POP, q, NULL));
    REPLIES(&a, "\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0one");
    TS_EXPECT(send_pair(&a, TS_WIRE_QUEUE_POP, q, NULL));
    TS_EXPECT(send_pair(&a, TS_WIRE_QUEUE_POP, q, NULL));
    REPLIES(&a, "\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0two\0\0\0\0\0\0\0\0");
    TS_EXPECT(send_keys(&a, TS_WIRE_CHECK, 1, &q));
    REPLIES(&a, "\1");
    ts_session_fini(&a);
    ts_session_fini(&b);
    ts_session_fini(&c);
    ts_hub_fini(&hub);
}

TS_TEST(session_barrier)
{
    ts_hub hub = {.flush = keep};
    ts_session s[3];
    for (int i = 0; i < 3; i++) TS_EXPECT(open_session(&s[i], &hub));
    for (int i = 0; i < 3; i++) {
        REPLIES(&s[0], "");
        TS_EXPECT(send_number(&s[i], TS_WIRE_BARRIER, "b", 3));
    }
    for (int i = 0; i < 3; i++) REPLIES(&s[i], STOP);
    for (int i = 0; i < 3; i++) ts_session_fini(&s[i]);
    ts_hub_fini(&hub);
}

/* Whatever comes, it is taken or refused. */
TS_TEST(session_survives_random_bytes)
{
    uint32_t state = 12345;
    for (int round = 0; round < 3000; round++) {
        ts_hub hub = {.flush = keep};
        ts_session s;
        const char *why = NULL;
        bool open = open_session(&s, &hub);
        for (int piece = 0; open && piece < 20; piece++) {
            char bytes[24] = {0};
            for (int i = 0; i < 24; i++) {
                state = state * 1664525u + 1013904223u;
                if ((state >> 29) < 3 || i == 0)
                    bytes[i] = (char)(state >> 24 & (i % 8 == 0 ? 31 : 1));
            }
            open = ts_session_feed(&s, bytes, 1 + (state >> 8) % 24, &why);
        }
        TS_EXPECT(open || why);
        ts_session_fini(&s);
        ts_hub_fini(&hub);
    }
}
