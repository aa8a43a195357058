/* SPDX-License-Identifier: Apache-2.0 */
#include "net/openssl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define LIBRARY "libssl.so.3" /* it brings libcrypto */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static ts_openssl_calls calls;
static char problem[256];

static void look_up(void *library, const char *name, void *place)
{
    void *found = dlsym(library, name);
    if (!found && !problem[0])
        snprintf(problem, sizeof problem, LIBRARY " lacks %s: it is of another version", name);
    memcpy(place, &found, sizeof found);
}

static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(problem, sizeof problem, "%s; install OpenSSL 3", dlerror());
        return;
    }
#define X(name) look_up(library, #name, &calls.name);
    TS_OPENSSL_CALLS(X)
#undef X
}

ts_status ts_openssl(const ts_openssl_calls **out)
{
    pthread_once(&once, load);
    *out = &calls;
    return problem[0] ? ts_fail(TS_EUNSUPPORTED, "a secret needs OpenSSL: %s", problem) : TS_OK;
}
