/* SPDX-License-Identifier: Apache-2.0 */
/* Which line of which file an address of code belongs to.  Slow; for errors and dumps. */
#ifndef TS_BASE_SITE_H
#define TS_BASE_SITE_H

#include <stddef.h>
#include <stdint.h>

typedef struct ts_sites ts_sites;

/* Of a process; 0: this one.  NULL: nothing can be told, which the other functions take. */
ts_sites *ts_sites_open(int pid);
void ts_sites_close(ts_sites *sites);
/* "train.c:42 in step", "step+0x1c of train" or "train+0x1d2c": the call that returns to address.
 * Empty if it belongs to nothing.  Returns text. */
char *ts_site_format(char *text, size_t size, ts_sites *sites, uint64_t address);
/* The same for one call of this process. */
char *ts_site_text(char *text, size_t size, const void *address);
typedef struct ts_site {
    char file[160], function[96];
    int line; /* 0: not known; file is the program or library then */
} ts_site;
int ts_site_find(ts_site *out, ts_sites *sites, uint64_t address); /* 0: it belongs to nothing */

#endif
