/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_TESTS_BY_STORE_H
#define TS_TESTS_BY_STORE_H

void register_by_store(void); /* as "by_store" */

#endif
