/* SPDX-License-Identifier: Apache-2.0 */
/* Load on a TCP store's server, in its protocol and without the library's client. */
#ifndef TS_TOOLS_BENCH_STORE_LOAD_H
#define TS_TOOLS_BENCH_STORE_LOAD_H

#include <stdbool.h>
#include <stdint.h>

/* Connections that have shown that they are clients of a store.  n of them into fd. */
bool store_load_connect(int *fd, int n, const char *host, int port);

/* Keeps depth requests (set, get, add, check in turn) under way on each connection for the given time.
 * Requests that were answered in *seconds; -1: the server failed. */
double store_load_run(const int *fd, int n, int depth, double *seconds);

/* Nanoseconds of processor time and bytes of memory that a process has used; 0: not known. */
int64_t store_load_cpu_ns(int pid);
int64_t store_load_memory(int pid);

#endif
