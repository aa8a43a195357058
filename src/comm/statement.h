/* SPDX-License-Identifier: Apache-2.0 */
/* The contract check for backends that compare whole calls: what a rank says, and the verdict. */
#ifndef TS_COMM_STATEMENT_H
#define TS_COMM_STATEMENT_H

#include <tessera/ext/backend.h>

/* See ts_host_api. */
void ts_statement_make(ts_statement *out, const ts_coll *coll, int rank, int size);
ts_status ts_statements_judge(const ts_statement *all, const ts_coll *coll, int rank, int size,
                              const char *group_name, bool *bad);
/* Elements of all parts, or of the tensor; and a hash of the parts' counts. */
int64_t ts_call_count(const ts_coll *coll, int size);
uint64_t ts_call_parts(const ts_coll *coll, int size);
/* A number per rank whose sum over all ranks is 0 (modulo 2^64) if each takes what the others give.
 */
uint64_t ts_call_pairs(const ts_coll *coll, int rank, int size);
uint64_t ts_call_digest(const ts_coll *coll, int rank, int size, uint64_t *pairs);

#endif
