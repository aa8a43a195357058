# SPDX-License-Identifier: Apache-2.0
"""Golden data for learning-rate schedules: the rates of two groups over 50 steps by PyTorch.

    python tests/golden/schedule.py      writes schedule.bin beside itself

src/optim/schedule_test.c makes the same schedules, in this order."""
import math
import pathlib

import torch
from torch.optim import lr_scheduler as sched

import golden_file

STEPS = 50


def wave(step):
    return 1.0 + math.sin(step)


def metric(step):
    """Falls, then stays, then falls a little."""
    return max(1.0, 10.0 - step) - (0.5 if step > 40 else 0.0)


def optimizer(kind=torch.optim.SGD, **more):
    groups = [dict(params=[torch.zeros(2)]), dict(params=[torch.zeros(3)], lr=0.02)]
    return kind(groups, lr=0.1, **more)


def sequential(o):
    return sched.SequentialLR(o, [sched.LinearLR(o, 0.1, 1.0, 5), sched.CosineAnnealingLR(o, 20, 1e-3),
                                  sched.ExponentialLR(o, 0.9)], [5, 30])


def chained(o):
    return sched.ChainedScheduler([sched.ConstantLR(o, 0.1, 10), sched.ExponentialLR(o, 0.95),
                                   sched.StepLR(o, 7, 0.5)])


def sequential_restarts(o):
    return sched.SequentialLR(o, [sched.ConstantLR(o, 0.5, 3), sched.LambdaLR(o, wave),
                                  sched.MultiStepLR(o, [2, 9], 0.3)], [4, 20])


CASES = [
    lambda o: sched.ConstantLR(o, 0.25, 8),
    lambda o: sched.StepLR(o, 6, 0.7),
    lambda o: sched.MultiStepLR(o, [30, 4, 4, 11], 0.6),
    lambda o: sched.ExponentialLR(o, 0.93),
    lambda o: sched.LinearLR(o, 0.3, 0.9, 17),
    lambda o: sched.PolynomialLR(o, 33, 1.7),
    lambda o: sched.CosineAnnealingLR(o, 12, 0.004),
    lambda o: sched.CosineAnnealingWarmRestarts(o, 5, 2, 0.003),
    lambda o: sched.LambdaLR(o, wave),
    sequential,
    chained,
    sequential_restarts,
    lambda o: sched.OneCycleLR(o, 0.5, total_steps=50),
    lambda o: sched.OneCycleLR(o, 0.4, total_steps=60, pct_start=0.25, anneal_strategy="linear",
                               base_momentum=0.7, max_momentum=0.9, div_factor=10.0,
                               final_div_factor=100.0, three_phase=True),
    lambda o: sched.ReduceLROnPlateau(o, factor=0.5, patience=3, cooldown=2, min_lr=1e-3),
    lambda o: sched.ReduceLROnPlateau(o, mode="max", factor=0.3, patience=1, threshold=0.5,
                                      threshold_mode="abs"),
]
MOMENTUM = {12: dict(momentum=0.9), 13: dict(kind=torch.optim.AdamW)}

arrays = {}
for number, make in enumerate(CASES):
    o = optimizer(**MOMENTUM.get(number, {}))
    s = make(o)
    rates, momenta = [], []
    for step in range(STEPS + 1):
        rates.append([g["lr"] for g in o.param_groups])
        if number in MOMENTUM:
            momenta.append([g["betas"][0] if "betas" in g else g["momentum"] for g in o.param_groups])
        if step == STEPS:
            break
        o.step()
        if isinstance(s, sched.ReduceLROnPlateau):
            s.step(metric(step))
        else:
            s.step()
    arrays[f"lr.{number}"] = torch.tensor(rates, dtype=torch.float64)
    if momenta:
        arrays[f"momentum.{number}"] = torch.tensor(momenta, dtype=torch.float64)

golden_file.write(pathlib.Path(__file__).with_suffix(".bin"), arrays)
