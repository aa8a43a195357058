/* SPDX-License-Identifier: Apache-2.0 */
/* TS_API marks what the shared library exports; everything else is hidden. */
#ifndef TESSERA_EXPORT_H
#define TESSERA_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TS_API __attribute__((visibility("default")))
#define TS_PRINTF(format_arg, first_arg) __attribute__((format(printf, format_arg, first_arg)))
#else
#define TS_API
#define TS_PRINTF(format_arg, first_arg)
#endif

#endif
