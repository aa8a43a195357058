/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in that serves PMIx, through which programs of Open MPI find each other.  It alone is
 * linked with libpmix; the launcher loads it when a job asks for Open MPI. */
#ifndef TS_TOOLS_LAUNCH_PMIX_H
#define TS_TOOLS_LAUNCH_PMIX_H

#include <stddef.h>

enum { LAUNCH_PMIX_VERSION = 1 };

typedef struct launch_pmix_api {
    int version; /* LAUNCH_PMIX_VERSION */
    /* Serves a job of so many ranks, all on this host, under a name that no other job of this
     * launcher has had.  NULL, or what is wrong. */
    const char *(*start)(const char *name, int ranks);
    /* What a rank needs: texts "NAME=value" that end with NULL, valid until the next call; NULL: it
     * failed. */
    char **(*environment)(int rank);
    void (*end)(void);  /* of the job */
    void (*stop)(void); /* of the server; removes its files */
} launch_pmix_api;

#define LAUNCH_PMIX_SYMBOL "ts_launch_pmix"

#endif
