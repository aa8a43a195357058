/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/frame.h"

#include <string.h>

#include "comm/engine.h"

void ts_put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(value >> 8 * i);
}

void ts_put_u64(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)(value >> 8 * i);
}

uint32_t ts_get_u32(const uint8_t *in)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) value |= (uint32_t)in[i] << 8 * i;
    return value;
}

uint64_t ts_get_u64(const uint8_t *in)
{
    return ts_get_u32(in) | (uint64_t)ts_get_u32(in + 4) << 32;
}

/* 0: two mark bytes, kind, channel; 4: payload; 8: tag; 16: bytes; 24: id. */
void ts_frame_write(uint8_t out[TS_FRAME_BYTES], const ts_frame *frame)
{
    out[0] = 'T';
    out[1] = 's';
    out[2] = frame->kind;
    out[3] = frame->channel;
    ts_put_u32(out + 4, frame->payload);
    ts_put_u64(out + 8, frame->tag);
    ts_put_u64(out + 16, frame->bytes);
    ts_put_u64(out + 24, frame->id);
}

static int data_fits(const ts_frame *f)
{
    if (f->bytes == 0) return f->payload == 0 && f->tag == 0;
    return f->payload > 0 && f->payload <= TS_DATA_MAX && f->tag < f->bytes &&
           f->payload <= f->bytes - f->tag;
}

static int eager_fits(const ts_frame *f)
{
    size_t most = f->channel == TS_CHANNEL_COLLECTIVE ? TS_EAGER_COLLECTIVE_MAX : TS_EAGER_MAX;
    return f->payload == f->bytes && f->bytes <= most;
}

static int payload_fits(const ts_frame *f)
{
    switch (f->kind) {
    case TS_FRAME_EAGER: return eager_fits(f);
    case TS_FRAME_DATA: return data_fits(f);
    case TS_FRAME_LEAVE:
    case TS_FRAME_ABORT: return f->payload <= TS_ABORT_TEXT_MAX;
    default: return f->payload == 0;
    }
}

const char *ts_frame_check(const ts_frame *f)
{
    if (f->kind < TS_FRAME_EAGER || f->kind > TS_FRAME_LEAVE) return "a frame of unknown kind";
    if (f->channel > TS_CHANNEL_COLLECTIVE) return "a frame of an unknown channel";
    if (f->bytes > SIZE_MAX / 2) return "a message length that cannot be";
    if (!payload_fits(f)) return "a frame whose payload does not fit its message";
    return NULL;
}

const char *ts_frame_read(ts_frame *frame, const uint8_t in[TS_FRAME_BYTES])
{
    if (in[0] != 'T' || in[1] != 's') return "a frame does not begin with its mark";
    ts_frame f = {.kind = in[2],
                  .channel = in[3],
                  .payload = ts_get_u32(in + 4),
                  .tag = ts_get_u64(in + 8),
                  .bytes = ts_get_u64(in + 16),
                  .id = ts_get_u64(in + 24),
                  .place = -1};
    const char *wrong = ts_frame_check(&f);
    if (!wrong) *frame = f;
    return wrong;
}
