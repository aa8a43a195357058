/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a CBLAS library that suits the processor and uses one thread. */
#include "kernels/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "kernels/isa.h"

static ts_blas blas;
static char load_error[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A function pointer from dlsym, without a cast that ISO C does not know. */
static void find(void *function, void *library, const char *name)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
}

/* The library, with variables set that it reads while it is loaded: no threads of its own (ours call
 * it, several at once), and the core if it is not NULL.  Afterwards they are what they were. */
static void *open_library(const char *path, const char *core)
{
    const char *text = getenv("OPENBLAS_NUM_THREADS");
    char threads[32];
    snprintf(threads, sizeof threads, "%s", text ? text : "");
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    if (core) setenv("OPENBLAS_CORETYPE", core, 1); /* better_core says so only if it is not set */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) snprintf(load_error, sizeof load_error, "%s", dlerror());
    if (core) unsetenv("OPENBLAS_CORETYPE");
    if (text)
        setenv("OPENBLAS_NUM_THREADS", threads, 1);
    else
        unsetenv("OPENBLAS_NUM_THREADS");
    return library;
}

static void read_core(void *library)
{
    char *(*corename)(void);
    find(&corename, library, "openblas_get_corename");
    snprintf(blas.core, sizeof blas.core, "%s", corename ? corename() : "");
}

/* The OpenBLAS core that suits the processor, if the one it chose is for a far older one; NULL if
 * its choice is fine or the user has made it. */
static const char *better_core(void)
{
    static const char *const old[] = {"Prescott",    "Core2", "Penryn", "Dunnington", "Nehalem",
                                      "Sandybridge", "Atom",  "Katmai", "Northwood"};
    if (getenv("OPENBLAS_CORETYPE")) return NULL;
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (strcmp(blas.core, old[i]) == 0)
            return ts_isa_best() == TS_ISA_AVX512 ? "SkylakeX"
                   : ts_isa_best() == TS_ISA_AVX2 ? "Haswell"
                                                  : NULL;
    return NULL;
}

static void *open_for_processor(const char *path)
{
    void *library = open_library(path, NULL);
    if (!library) return NULL;
    read_core(library);
    const char *core = better_core();
    if (!core) return library;
    TS_LOG(TS_LOG_BASE, TS_LEVEL_INFO,
           "OpenBLAS takes this processor for %s; using its kernels for %s", blas.core, core);
    dlclose(library);
    library = open_library(path, core);
    if (library) read_core(library);
    if (library && better_core())
        TS_LOG(TS_LOG_BASE, TS_LEVEL_WARNING,
               "matrix products are slow: the program has loaded OpenBLAS itself and it takes this "
               "processor for %s; set OPENBLAS_CORETYPE=%s",
               blas.core, core);
    return library;
}

static void load(void)
{
    const char *path = ts_setting_string(TS_SETTING_BLAS);
    blas.path = *path ? path : TS_BLAS_PATH;
    void *library = open_for_processor(blas.path);
    if (!library) return;
    find(&blas.sgemm, library, "cblas_sgemm");
    find(&blas.dgemm, library, "cblas_dgemm");
    if (!blas.sgemm || !blas.dgemm)
        snprintf(load_error, sizeof load_error, "it has no cblas_sgemm and cblas_dgemm");
}

ts_status ts_blas_get(const ts_blas **out)
{
    pthread_once(&once, load);
    if (!blas.sgemm || !blas.dgemm)
        return ts_fail(
            TS_EUNSUPPORTED,
            "matrix products need a CBLAS library: %s: %s; install libopenblas0-pthread or "
            "set TESSERA_BLAS",
            blas.path, load_error);
    *out = &blas;
    return TS_OK;
}
