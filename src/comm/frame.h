/* SPDX-License-Identifier: Apache-2.0 */
/* What travels on a link: frames of a header and a payload.  Pure functions on bytes.
 *
 * A short message is one EAGER frame.  A long one is announced by RTS, asked for by CTS when a
 * receive has been posted, and comes as DATA frames; so a message that nobody waits for needs no
 * memory at the receiver.  id is the sender's number of such a message. */
#ifndef TS_COMM_FRAME_H
#define TS_COMM_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define TS_FRAME_BYTES 32
#define TS_EAGER_MAX 65536 /* longest message that is sent unasked */
/* The same for collectives between hosts: there the receive is posted, or about to be. */
#define TS_EAGER_COLLECTIVE_MAX (512 * 1024)
#define TS_DATA_MAX (256 * 1024) /* longest piece of a long message */
#define TS_ABORT_TEXT_MAX 1024

typedef enum ts_frame_kind {
    TS_FRAME_EAGER = 1,
    TS_FRAME_RTS = 2,
    TS_FRAME_CTS = 3,
    TS_FRAME_DATA = 4,    /* tag: offset in the message */
    TS_FRAME_REFUSE = 5,  /* receiver: its buffer has another size; bytes: that size */
    TS_FRAME_CANCEL = 6,  /* sender: gives up the message */
    TS_FRAME_CREDIT = 7,  /* receiver: bytes of eager messages were taken */
    TS_FRAME_GOODBYE = 8, /* sender goes; nothing follows */
    TS_FRAME_ABORT = 9,   /* sender ends its port; tag: status; the payload is the text */
    TS_FRAME_DONE = 10,   /* receiver: it has copied what an RTS offered */
    TS_FRAME_LEAVE = 11   /* sender has closed its port; bytes: 1 + the collectives that it called,
                             or 0; the payload is why, if another was gone */
} ts_frame_kind;

typedef struct ts_frame {
    uint8_t kind, channel;
    uint32_t payload; /* bytes that follow the header */
    uint64_t tag;
    uint64_t bytes; /* of the whole message */
    uint64_t id;
    /* RTS within a host: where the data lies in the sender's shared heap (-1: it is not there) and
     * which offer it is; not written. */
    int64_t place;
    uint8_t slot;
} ts_frame;

void ts_frame_write(uint8_t out[TS_FRAME_BYTES], const ts_frame *frame);
/* NULL, or what is wrong with it (a static text). */
const char *ts_frame_read(ts_frame *frame, const uint8_t in[TS_FRAME_BYTES]);
const char *ts_frame_check(const ts_frame *frame);

/* ABORT and LEAVE: id is the number of the receiver's port; with this channel, of the sender's. */
enum { TS_FRAME_OWN_PORT = 1 };

/* Numbers in little-endian order, whatever the machine. */
void ts_put_u32(uint8_t *out, uint32_t value);
void ts_put_u64(uint8_t *out, uint64_t value);
uint32_t ts_get_u32(const uint8_t *in);
uint64_t ts_get_u64(const uint8_t *in);

#endif
