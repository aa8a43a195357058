/* SPDX-License-Identifier: Apache-2.0 */
/* The server's side of the protocol without any sockets: bytes of clients in, replies out. */
#ifndef TS_STORE_SESSION_H
#define TS_STORE_SESSION_H

#include "store/auth.h"

typedef struct ts_session ts_session;

/* What all sessions of a server share. */
typedef struct ts_hub {
    ts_table table;
    ts_key key; /* given: clients must show that they know the secret */
    /* There are bytes in session->out; called also for sessions other than the one being fed. */
    void (*flush)(ts_session *session);
} ts_hub;

/* One key that a session waits for, in the lists of its entry and of its session. */
typedef struct ts_waiter {
    ts_session *session;
    ts_entry *entry;
    struct ts_waiter *next_of_entry, *prev_of_entry, *next_of_session;
    bool satisfied;
    bool barrier; /* satisfied by the count of arrivals, not by the key's existence */
} ts_waiter;

struct ts_session {
    ts_hub *hub;
    ts_buffer in, out;
    ts_wire_scan scan;
    ts_auth_server auth;
    bool validated;
    ts_waiter *waiters;
    int64_t missing; /* waiters that are not satisfied */
    void *user;      /* for the owner */
};

void ts_hub_fini(ts_hub *hub); /* after all sessions */
void ts_session_init(ts_session *session, ts_hub *hub, void *user);
void ts_session_fini(ts_session *session); /* ends its waits */

/* Handles the bytes.  False: the connection is to be closed after what is in out has been sent;
 * *why is a static text. */
bool ts_session_feed(ts_session *session, const char *data, size_t size, const char **why);

#endif
