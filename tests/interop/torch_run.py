# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program as tessera run starts it: env:// and an all-reduce.  Exits 77 without PyTorch."""
import sys

try:
    import torch
    import torch.distributed as dist
except ImportError:
    sys.exit(77)

dist.init_process_group("gloo", init_method="env://")
value = torch.full((3,), float(dist.get_rank() + 1))
dist.all_reduce(value)
sys.stdout.write(f"sum {value.tolist()}\n")
sys.stdout.flush()
dist.destroy_process_group()
