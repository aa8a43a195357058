/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of the lesson, for the conformance program. */
#include "by_store.h"

int lesson_main(void);
#define main lesson_main
#include "../../examples/05_own_backend.c"

void register_by_store(void) { ts_must(ts_register_backend(&by_store_ops, "cpu")); }
