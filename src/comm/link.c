/* SPDX-License-Identifier: Apache-2.0 */
/* The sending half of a link, and its end. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/mail.h"

#define PIECES_AT_ONCE 16
#define WRITE_BUDGET (1024 * 1024) /* bytes per turn, so that no link holds up the others */

ts_link *ts_link_new(ts_engine *engine, int peer)
{
    ts_link *link = ts_calloc(1, sizeof *link);
    if (!link) return NULL;
    link->engine = engine;
    link->peer = peer;
    link->trunk = link;
    link->fd = link->pidfd = link->heap_fd = -1;
    link->credit = TS_EAGER_WINDOW;
    ts_list_init(&link->sends);
    ts_list_init(&link->receives);
    return link;
}

ts_link *ts_link_socket(ts_link *trunk, int socket)
{
    if (socket == 0) return trunk;
    return socket > 0 && socket < TS_SOCKETS_MAX ? trunk->branch[socket - 1] : NULL;
}

ts_status ts_link_branch_out(ts_link *trunk, int n)
{
    for (int i = 1; i < n; i++) {
        ts_link *branch = ts_link_new(trunk->engine, trunk->peer);
        if (!branch) return ts_fail_memory(sizeof *branch, "a connection");
        branch->trunk = trunk;
        branch->socket = i;
        trunk->branch[i - 1] = branch;
    }
    return TS_OK;
}

const char *ts_link_describe(const ts_link *link, char *out, size_t size)
{
    link = link->trunk;
    snprintf(out, size, "rank %d (pid %d on %s)", link->peer, link->pid, link->host);
    return out;
}

/* ---- epoll ----------------------------------------------------------------------------------- */

static ts_status watch(ts_engine *engine, int fd, uint32_t events, uint64_t what)
{
    struct epoll_event event = {.events = events, .data.u64 = what};
    if (epoll_ctl(engine->epoll, EPOLL_CTL_ADD, fd, &event) == 0) return TS_OK;
    return ts_fail(TS_ENETWORK, "group '%s': cannot watch a link: %s", engine->name,
                   strerror(errno));
}

ts_status ts_link_watch(ts_link *trunk)
{
    ts_link *link = trunk;
    for (int i = 0; link; link = ts_link_socket(trunk, ++i))
        if (link->fd >= 0) TS_TRY(watch(link->engine, link->fd, EPOLLIN, ts_link_event(link, i)));
    if (trunk->pidfd < 0) return TS_OK;
    return watch(trunk->engine, trunk->pidfd, EPOLLIN, ts_link_event(trunk, TS_PROCESS_SOCKET));
}

static void arm(ts_link *link, bool wanted)
{
    if (link->armed == wanted || link->fd < 0) return;
    struct epoll_event event = {.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                .data.u64 = ts_link_event(link, link->socket)};
    epoll_ctl(link->engine->epoll, EPOLL_CTL_MOD, link->fd, &event);
    link->armed = wanted;
}

static void close_watched(ts_engine *engine, int *fd)
{
    if (*fd < 0) return;
    epoll_ctl(engine->epoll, EPOLL_CTL_DEL, *fd, NULL); /* a forked child may hold a copy */
    close(*fd);
    *fd = -1;
}

/* ---- the queue ------------------------------------------------------------------------------- */

static void outgoing_free(ts_outgoing *out)
{
    free(out->owned);
    ts_small_free(out, sizeof *out);
}

void ts_link_count_sent(ts_link *link, size_t bytes)
{
    if (link->trunk->same_host) return;
    link->engine->traffic.sent_frames++;
    link->engine->traffic.sent_bytes += bytes;
}

static void pop(ts_link *link)
{
    ts_outgoing *out = link->first;
    link->first = out->next;
    if (!link->first) link->last = NULL;
    ts_message *message = out->message;
    uint8_t kind = out->frame.kind;
    size_t bytes = out->payload_bytes;
    ts_link_count_sent(link, bytes);
    outgoing_free(out);
    if (message) ts_send_frame_written(message, link, kind, bytes);
}

void ts_link_advance(ts_link *link, size_t written)
{
    while (written > 0 && link->first) {
        ts_outgoing *out = link->first;
        size_t left = TS_FRAME_BYTES + out->payload_bytes - out->sent;
        if (written < left) {
            out->sent += written;
            return;
        }
        written -= left;
        pop(link);
    }
}

static int gather(const ts_link *link, struct iovec *iov)
{
    int n = 0;
    for (ts_outgoing *out = link->first; out && n < 2 * PIECES_AT_ONCE - 1; out = out->next) {
        size_t sent = out->sent;
        if (sent < TS_FRAME_BYTES) {
            iov[n++] = (struct iovec){out->header + sent, TS_FRAME_BYTES - sent};
            sent = TS_FRAME_BYTES;
        }
        size_t from = sent - TS_FRAME_BYTES;
        if (from < out->payload_bytes)
            iov[n++] =
                (struct iovec){(void *)(uintptr_t)(out->payload + from), out->payload_bytes - from};
    }
    return n;
}

/* An error stays unread here: the reading side finds out why the link ended. */
void ts_link_flush(ts_link *link)
{
    size_t budget = WRITE_BUDGET;
    if (link->mail) {
        ts_mail_flush(link);
        return;
    }
    while (link->first && link->fd >= 0 && budget > 0) {
        struct iovec iov[2 * PIECES_AT_ONCE];
        struct msghdr header = {.msg_iov = iov};
        header.msg_iovlen = (size_t)gather(link, iov);
        ssize_t n = sendmsg(link->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        ts_link_advance(link, (size_t)n);
        budget -= (size_t)n < budget ? (size_t)n : budget;
    }
    arm(link, link->first != NULL);
}

ts_status ts_link_queue(ts_link *link, const ts_frame *frame, const void *payload, bool owned,
                        ts_message *message)
{
    bool open = link->fd >= 0 || link->opening;
    ts_outgoing *out = open ? ts_small_new(sizeof *out) : NULL;
    if (!out) {
        if (owned) free((void *)(uintptr_t)payload);
        if (!open) return TS_OK;
        ts_link_lose(link, TS_ENOMEM, false, "out of memory for a frame");
        return ts_fail_memory(sizeof *out, "a frame");
    }
    ts_frame_write(out->header, frame);
    out->frame = *frame;
    out->message = message;
    out->payload = payload;
    out->payload_bytes = frame->payload;
    if (owned) out->owned = (uint8_t *)(uintptr_t)payload;
    if (link->last)
        link->last->next = out;
    else
        link->first = out;
    link->last = out;
    return TS_OK;
}

/* The peer expects the rest of a frame that has begun. */
static bool keep_copy(ts_outgoing *out)
{
    out->message = NULL;
    if (out->owned || out->payload_bytes == 0) return true;
    out->owned = ts_calloc(1, out->payload_bytes);
    if (!out->owned) return false;
    memcpy(out->owned, out->payload, out->payload_bytes);
    out->payload = out->owned;
    return true;
}

static void detach(ts_link *link, ts_message *message)
{
    ts_outgoing *before = NULL;
    for (ts_outgoing *out = link->first, *next; out; out = next) {
        next = out->next;
        if (out->message != message) {
            before = out;
            continue;
        }
        if (out->sent > 0) {
            if (!keep_copy(out)) ts_link_lose(link, TS_ENOMEM, false, "out of memory for a frame");
            return;
        }
        if (before)
            before->next = next;
        else
            link->first = next;
        if (link->last == out) link->last = before;
        if (out->frame.kind == TS_FRAME_EAGER)
            link->credit += (int64_t)out->payload_bytes + TS_EAGER_COST;
        outgoing_free(out);
    }
}

void ts_link_detach(ts_link *trunk, ts_message *message)
{
    ts_link *link = trunk;
    for (int i = 0; link; link = ts_link_socket(trunk, ++i)) detach(link, message);
}

static void drop_queue(ts_link *link)
{
    while (link->first) {
        ts_outgoing *out = link->first;
        link->first = out->next;
        outgoing_free(out);
    }
    link->last = NULL;
}

/* ---- the end --------------------------------------------------------------------------------- */

void ts_link_part(ts_link *link)
{
    close_watched(link->engine, &link->fd);
    drop_queue(link);
}

void ts_link_close(ts_link *trunk)
{
    ts_link *link = trunk;
    ts_mail_stop(trunk);
    for (int i = 0; link; link = ts_link_socket(trunk, ++i)) {
        ts_link_part(link);
        link->status = trunk->status;
    }
    trunk->opening = false;
    close_watched(trunk->engine, &trunk->pidfd);
}

static void end_messages(ts_link *link, ts_list *list)
{
    while (!ts_list_empty(list))
        ts_message_end(TS_LIST_ITEM(list->next, ts_message, node), link->status, link->why);
}

void ts_link_lose(ts_link *link, ts_status status, bool graceful, const char *format, ...)
{
    ts_engine *engine = link->engine;
    link = link->trunk;
    if (link->status != TS_OK) return;
    char who[160], what[TS_ABORT_TEXT_MAX + 64];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    link->why = ts_asprintf("group '%s': %s %s", engine->name,
                            ts_link_describe(link, who, sizeof who), what);
    link->status = status;
    ts_link_close(link);
    ts_match_link_lost(link);
    ts_port_lose_everywhere(link, graceful, what);
    end_messages(link, &link->sends); /* of ports that had lost the peer before */
    end_messages(link, &link->receives);
    ts_engine_wake(engine);
}

static void *map_heap(const ts_link *link, int protection)
{
    if (link->heap_fd < 0) return NULL;
    void *heap =
        mmap(NULL, link->heap_reserved, protection, MAP_SHARED | MAP_NORESERVE, link->heap_fd, 0);
    return heap == MAP_FAILED ? NULL : heap;
}

const char *ts_link_map(ts_link *link)
{
    if (!link->heap) link->heap = map_heap(link, PROT_READ);
    return link->heap;
}

char *ts_link_map_to_store(ts_link *link)
{
    if (link->heap_to_store) return link->heap_to_store;
    link->heap_to_store = map_heap(link, PROT_READ | PROT_WRITE);
    if (!link->heap_to_store) return NULL;
    madvise(link->heap_to_store, link->heap_reserved, MADV_DONTFORK);
    madvise(link->heap_to_store, link->heap_reserved, MADV_HUGEPAGE);
    return link->heap_to_store;
}

void ts_link_free(ts_link *link)
{
    if (!link) return;
    for (int i = 0; i < TS_SOCKETS_MAX - 1; i++) ts_link_free(link->branch[i]);
    drop_queue(link);
    ts_mail_free(link);
    if (link->fd >= 0) close(link->fd);
    if (link->pidfd >= 0) close(link->pidfd);
    if (link->heap) munmap((void *)(uintptr_t)link->heap, link->heap_reserved);
    if (link->heap_to_store) munmap(link->heap_to_store, link->heap_reserved);
    if (link->heap_fd >= 0) close(link->heap_fd);
    free(link->why);
    free(link->cause);
    free(link->in_text);
    free(link);
}
