# SPDX-License-Identifier: Apache-2.0
"""Golden data for the sampler: indices of PyTorch's DistributedSampler without shuffling.

    python tests/golden/sampler.py      writes sampler.bin beside itself
"""
import pathlib

import torch
from torch.utils.data.distributed import DistributedSampler

import golden_file

SIZES = [0, 1, 2, 3, 5, 8, 10, 17, 24]
REPLICAS = [1, 2, 3, 4, 7]

rows = []     # size, replicas, rank, drop_last, number of indices
indices = []  # of all rows
for size in SIZES:
    for replicas in REPLICAS:
        for drop_last in (False, True):
            for rank in range(replicas):
                sampler = DistributedSampler(range(size), num_replicas=replicas, rank=rank,
                                             shuffle=False, drop_last=drop_last)
                taken = list(sampler)
                assert len(taken) == len(sampler)
                rows.append([size, replicas, rank, int(drop_last), len(taken)])
                indices += taken
golden_file.write(pathlib.Path(__file__).with_suffix(".bin"),
                  {"rows": torch.tensor(rows, dtype=torch.int16),
                   "indices": torch.tensor(indices, dtype=torch.uint8)})
