/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a link brings: frames, greetings, records; and a whole receiving side fed with bytes. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/engine_impl.h"
#include "comm/handshake.h"
#include "net/socket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parsers(const uint8_t *data, size_t size)
{
    ts_record record;
    ts_hello hello;
    ts_frame frame;
    ts_status status;
    char *text = malloc(size + 1);
    if (!text) return;
    memcpy(text, data, size);
    text[size] = '\0';
    ts_record_read(&record, text, size);
    ts_refusal_read(&status, text, size);
    free(text);
    if (size >= TS_HELLO_BYTES) ts_hello_read(&hello, data, "run", "group");
    ts_key key = {.given = true};
    ts_nonces nonces = {.accepting = {1}};
    if (size >= TS_GREETING_MAX && !ts_greeting_check(data, &key, &nonces, size % 2)) abort();
    if (size >= TS_FRAME_BYTES) ts_frame_read(&frame, data);
}

/* A group of two whose other member is the input, over one connection or two. */
static ts_engine *half_an_engine(int fd, int second)
{
    ts_engine_options opt = {.name = "fuzz", .rank = 0, .size = 2, .heap_fd = -1};
    ts_engine *engine = ts_engine_allocate(&opt);
    if (!engine) abort();
    engine->link[1]->fd = fd;
    if (second < 0) return engine;
    if (ts_link_branch_out(engine->link[1], 2) != TS_OK) abort();
    engine->link[1]->branch[0]->fd = second;
    return engine;
}

/* The first byte of each frame is dropped, the second says how it is completed, so that mutations
 * reach beyond the header's check. */
static size_t make_frames(uint8_t *out, size_t room, const uint8_t *data, size_t size)
{
    size_t used = 0;
    while (size >= 6 && used + TS_FRAME_BYTES + data[4] <= room) {
        uint32_t payload = data[4];
        ts_frame f = {
            .kind = (uint8_t)(1 + data[0] % 9), .channel = data[1] % 2, .tag = data[2] % 4};
        f.id = data[3] % 8;
        f.bytes = data[5] % 3 ? payload : payload + 70000u;
        bool carries =
            f.kind == TS_FRAME_EAGER || f.kind == TS_FRAME_DATA || f.kind == TS_FRAME_ABORT;
        f.payload = carries ? payload : 0;
        ts_frame_write(out + used, &f);
        memset(out + used + TS_FRAME_BYTES, 'x', f.payload);
        used += TS_FRAME_BYTES + f.payload;
        data += 6;
        size -= 6;
    }
    return used;
}

static void put(int fd, const uint8_t *data, size_t size)
{
    ssize_t n = send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)n;
}

/* With two connections what lies behind split comes on the second. */
static void receive(const uint8_t *data, size_t size, size_t split)
{
    int fd[2], other[2] = {-1, -1};
    static uint8_t buf[4][256];
    ts_message *m[4] = {0}, *s = NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) != 0) return;
    if (split < size && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, other) != 0) abort();
    ts_engine *engine = half_an_engine(fd[0], other[0]);
    for (int i = 0; i < 4; i++)
        ts_port_recv(&m[i], ts_engine_port(engine), i % 2 ? 1 : TS_ENGINE_ANY, TS_CHANNEL_USER,
                     (uint64_t)i, buf[i], (size_t)i * 40, NULL, NULL);
    ts_port_send(&s, ts_engine_port(engine), 1, TS_CHANNEL_USER, 0, data,
                 70000 < size ? 70000 : size, NULL, NULL);
    put(fd[1], data, split < size ? split : size);
    if (split < size) put(other[1], data + split, size - split);
    for (int i = 0; i < 4; i++) {
        ts_engine_lock(engine);
        ts_link_read(engine->link[1]);
        if (other[0] >= 0) ts_link_read(engine->link[1]->branch[0]);
        ts_engine_unlock(engine);
        if (i == 1) ts_message_free(m[0]);
    }
    close(fd[1]);
    if (other[1] >= 0) close(other[1]);
    for (int i = 1; i < 4; i++) ts_message_free(m[i]);
    ts_message_free(s);
    ts_engine_free(engine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t frames[65536];
    if (size < 1) return 0;
    parsers(data, size);
    receive(data, size, size);
    size_t made = make_frames(frames, sizeof frames, data, size);
    receive(frames, made, made);
    receive(frames, made, made * data[0] / 256);
    return 0;
}
