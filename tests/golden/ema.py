# SPDX-License-Identifier: Apache-2.0
"""Golden data for the moving average of weights: six updates by torch.optim.swa_utils.

    python tests/golden/ema.py      writes ema.bin beside itself"""
import pathlib

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import golden_file

UPDATES = 6
SHAPES = dict(a=((3, 5), torch.float32), b=((40,), torch.bfloat16), c=((2, 3), torch.float16),
              d=((), torch.float64), e=((0, 4), torch.float32))
BUFFERS = dict(mean=((7,), torch.float32), count=((), torch.int64))

generator = torch.Generator().manual_seed(4)
arrays = {}


def values(shape, dtype):
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * 10).to(dtype)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name, (shape, dtype) in SHAPES.items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape, dtype=dtype)))
        for name, (shape, dtype) in BUFFERS.items():
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))


for update in range(UPDATES):
    for name, (shape, dtype) in (SHAPES | BUFFERS).items():
        arrays[f"weights.{update}.{name}"] = values(shape, dtype)

for case, (decay, use_buffers) in enumerate([(0.9, False), (0.3, False), (0.75, True), (1.0, True)]):
    model = Model()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=use_buffers)
    for update in range(UPDATES):
        with torch.no_grad():
            for name, t in model.state_dict().items():
                t.copy_(arrays[f"weights.{update}.{name}"])
        average.update_parameters(model)
    for name, t in average.state_dict().items():
        arrays[f"average.{case}.{name}"] = t.clone()

golden_file.write(pathlib.Path(__file__).with_suffix(".bin"), arrays)
