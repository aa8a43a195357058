# SPDX-License-Identifier: Apache-2.0
"""Golden data for optimizers and clipping: ten steps from given gradients by PyTorch.

    OMP_NUM_THREADS=1 python tests/golden/optim.py      writes optim.bin beside itself

The cases stand in the same order in src/optim/optim_golden_test.c."""
import math
import pathlib

import torch

import golden_file

SHAPES = [(3, 5), (7,), (), (0, 4), (2, 3, 4)]
STEPS = 10
ABSENT = {(2, 1), (3, 1), (0, 4), (5, 2)}  # (step, parameter) without a gradient
CASES = [
    ("sgd", dict(lr=0.1)),
    ("sgd", dict(lr=0.05, momentum=0.9, dampening=0.25, weight_decay=0.01)),
    ("sgd", dict(lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.1)),
    ("sgd", dict(lr=0.2, weight_decay=0.3)),
    ("adamw", dict(lr=1e-3)),
    ("adamw", dict(lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    ("adamw", dict(lr=0.01, betas=(0.0, 0.5), eps=1e-3, weight_decay=0.0)),
]
NORMS = [2.0, 1.0, 3.0, 0.5, math.inf]

generator = torch.Generator().manual_seed(1)


def random(shape, scale):
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).float()


arrays = {}
start = [random(s, 1.0) for s in SHAPES]
grads = {(step, i): random(s, 10.0 ** (i - 4)) for step in range(STEPS) for i, s in enumerate(SHAPES)}
for i, t in enumerate(start):
    arrays[f"start.{i}"] = t
for (step, i), t in grads.items():
    if (step, i) not in ABSENT:
        arrays[f"grad.{step}.{i}"] = t

for number, (name, options) in enumerate(CASES):
    for dtype, text in ((torch.float32, "f32"), (torch.float64, "f64")):
        params = [t.to(dtype).clone().requires_grad_() for t in start]
        optimizer = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[name](params, **options)
        for step in range(STEPS):
            for i, p in enumerate(params):
                p.grad = None if (step, i) in ABSENT else grads[step, i].to(dtype).clone()
            optimizer.step()
            if step in (0, STEPS - 1):
                for i, p in enumerate(params):
                    arrays[f"case.{number}.{text}.{step}.{i}"] = p.detach().clone()

for p_norm in NORMS:
    for max_norm in (0.5, 1e6):
        params = [t.clone().requires_grad_() for t in start]
        for i, p in enumerate(params):
            p.grad = grads[1, i].clone()
        # PyTorch has no infinity norm of nothing.
        total = torch.nn.utils.clip_grad_norm_([p for p in params if p.numel()], max_norm, p_norm)
        arrays[f"norm.{p_norm:g}.{max_norm:g}"] = total.double()
        for i, p in enumerate(params):
            arrays[f"clipped.{p_norm:g}.{max_norm:g}.{i}"] = p.grad

golden_file.write(pathlib.Path(__file__).with_suffix(".bin"), arrays)
