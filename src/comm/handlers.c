/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/handlers.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { MOST = 32, SCHEME_MAX = 32 };

static const char *const own_schemes[] = {"env", "tcp", "file"};

typedef struct handler {
    char scheme[SCHEME_MAX];
    ts_rendezvous_fn call;
    void *user;
} handler;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static handler handlers[MOST];
static int count;

static bool is_scheme(const char *text)
{
    size_t length = 0;
    for (; text[length]; length++)
        if (!isalnum((unsigned char)text[length]) && !strchr("+-._", text[length])) return false;
    return length > 0 && length < SCHEME_MAX;
}

static bool is_taken(const char *scheme)
{
    for (size_t i = 0; i < sizeof own_schemes / sizeof *own_schemes; i++)
        if (strcmp(own_schemes[i], scheme) == 0) return true;
    for (int i = 0; i < count; i++)
        if (strcmp(handlers[i].scheme, scheme) == 0) return true;
    return false;
}

static ts_status add(const char *scheme, ts_rendezvous_fn call, void *user)
{
    if (is_taken(scheme))
        return ts_fail(TS_EINVAL, "register_rendezvous_handler: '%s' is taken; choose another name",
                       scheme);
    if (count == MOST)
        return ts_fail(TS_EINVAL, "register_rendezvous_handler: '%s' would be one of more than %d",
                       scheme, MOST);
    snprintf(handlers[count].scheme, SCHEME_MAX, "%s", scheme);
    handlers[count].call = call;
    handlers[count++].user = user;
    return TS_OK;
}

ts_status ts_register_rendezvous_handler(const char *scheme, ts_rendezvous_fn call, void *user)
{
    if (!scheme || !is_scheme(scheme))
        return ts_fail(TS_EINVAL,
                       "register_rendezvous_handler: scheme '%s' is not made of 1 to %d letters, "
                       "digits and + - . _",
                       scheme ? scheme : "(NULL)", SCHEME_MAX - 1);
    if (!call) return ts_fail(TS_EINVAL, "register_rendezvous_handler: the handler is NULL");
    pthread_mutex_lock(&lock);
    ts_status status = add(scheme, call, user);
    pthread_mutex_unlock(&lock);
    return status;
}

static bool find(handler *out, const char *url)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count && !found; i++) {
        size_t length = strlen(handlers[i].scheme);
        found =
            strncmp(url, handlers[i].scheme, length) == 0 && strncmp(url + length, "://", 3) == 0;
        if (found) *out = handlers[i];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool ts_handler_exists(const char *url)
{
    handler unused;
    return find(&unused, url);
}

ts_status ts_handler_call(ts_place *place, const char *url, int64_t timeout_ms)
{
    handler h;
    if (!find(&h, url)) return ts_handler_missing(url);
    TS_TRY(h.call(&place->store, &place->rank, &place->size, url, timeout_ms, h.user));
    if (place->store) return ts_store_set_timeout(place->store, timeout_ms);
    return ts_fail(TS_EINVAL, "init_process_group: the handler of %s:// has given no store",
                   h.scheme);
}

ts_status ts_handler_missing(const char *scheme)
{
    char names[MOST * (SCHEME_MAX + 5)] = "";
    size_t used = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, ", %s://", handlers[i].scheme);
    pthread_mutex_unlock(&lock);
    return ts_fail(TS_EINVAL,
                   "init_process_group: no init method '%s://'; there are env://, tcp://host:port, "
                   "file:///path%s",
                   scheme, names);
}
