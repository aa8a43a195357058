/* SPDX-License-Identifier: Apache-2.0 */
/* All of Tessera.
 *
 * Options are structs: start from their _INIT value and change what you need.  A NULL pointer to
 * options means the defaults, which stand beside the fields. */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H

#include <tessera/autograd.h>
#include <tessera/checkpoint.h>
#include <tessera/collectives.h>
#include <tessera/data.h>
#include <tessera/ddp.h>
#include <tessera/debug.h>
#include <tessera/dtype.h>
#include <tessera/ema.h>
#include <tessera/export.h>
#include <tessera/formats.h>
#include <tessera/function.h>
#include <tessera/group.h>
#include <tessera/loader.h>
#include <tessera/memory.h>
#include <tessera/models.h>
#include <tessera/module.h>
#include <tessera/nn.h>
#include <tessera/object.h>
#include <tessera/objects.h>
#include <tessera/ops.h>
#include <tessera/optim.h>
#include <tessera/p2p.h>
#include <tessera/process_group.h>
#include <tessera/random.h>
#include <tessera/schedule.h>
#include <tessera/scope.h>
#include <tessera/shape.h>
#include <tessera/spawn.h>
#include <tessera/status.h>
#include <tessera/store.h>
#include <tessera/tensor.h>
#include <tessera/threads.h>
#include <tessera/tokenizer.h>
#include <tessera/version.h>
#include <tessera/work.h>

#endif
