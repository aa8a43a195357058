# SPDX-License-Identifier: Apache-2.0
"""Golden data for optimizers and clipping: ten steps from given gradients by PyTorch.

    OMP_NUM_THREADS=1 python tests/golden/optim.py      writes optim.bin beside itself

The file says which optimizer and options each case has."""
import math
import pathlib

import torch

import golden_file

SHAPES = [(3, 5), (7,), (), (0, 4), (2, 3, 4), (6, 4)]
STEPS = 10
ABSENT = {(2, 1), (3, 1), (0, 4), (5, 2)}  # (step, parameter) without a gradient
MATRICES = [0, 3, 5]
CASES = [
    ("sgd", dict(lr=0.1)),
    ("sgd", dict(lr=0.05, momentum=0.9, dampening=0.25, weight_decay=0.01)),
    ("sgd", dict(lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.1)),
    ("sgd", dict(lr=0.2, weight_decay=0.3, maximize=True)),
    ("adam", dict()),
    ("adam", dict(lr=0.02, beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.1, amsgrad=True)),
    ("adam", dict(lr=0.02, weight_decay=0.2, maximize=True)),
    ("adamw", dict()),
    ("adamw", dict(lr=0.02, beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.1)),
    ("adamw", dict(lr=0.01, beta1=0.0, beta2=0.5, eps=1e-3, weight_decay=0.0, amsgrad=True)),
    ("adagrad", dict()),
    ("adagrad", dict(lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.2)),
    ("rmsprop", dict()),
    ("rmsprop", dict(lr=0.02, alpha=0.9, weight_decay=0.1, momentum=0.8)),
    ("rmsprop", dict(lr=0.02, eps=1e-3, momentum=0.5, centered=True, maximize=True)),
    ("adadelta", dict()),
    ("adadelta", dict(lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.1)),
    ("adamax", dict()),
    ("adamax", dict(lr=0.02, beta1=0.8, beta2=0.9, weight_decay=0.1, maximize=True)),
    ("nadam", dict()),
    ("nadam", dict(lr=0.02, beta1=0.8, beta2=0.95, weight_decay=0.1, momentum_decay=0.01)),
    ("nadam", dict(lr=0.02, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("radam", dict()),
    ("radam", dict(lr=0.02, beta1=0.8, beta2=0.95, eps=1e-5, weight_decay=0.1)),
    ("radam", dict(lr=0.02, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("rprop", dict()),
    ("rprop", dict(lr=0.1, etaminus=0.3, etaplus=1.5, step_min=1e-3, step_max=0.2, maximize=True)),
    ("lion", dict()),
    ("lion", dict(lr=0.01, beta1=0.8, beta2=0.95, weight_decay=0.1)),
    ("muon", dict()),
    ("muon", dict(lr=0.02, weight_decay=0.2, momentum=0.8, nesterov=False, ns_steps=3, adjust_lr=1)),
]
PYTORCH = dict(sgd="SGD", adam="Adam", adamw="AdamW", adagrad="Adagrad", rmsprop="RMSprop",
               adadelta="Adadelta", adamax="Adamax", nadam="NAdam", radam="RAdam", rprop="Rprop")
GROUPED = {1, 8, 20}  # cases that run again with parameters 3.. in a second group
SECOND = dict(lr=0.003, weight_decay=0.05)
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



class Lion(torch.optim.Optimizer):
    """PyTorch has none: the formula of the paper."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(m.lerp(p.grad, 1 - beta1).sign(), alpha=-group["lr"])
                m.lerp_(p.grad, 1 - beta2)


class Muon(torch.optim.Optimizer):
    """PyTorch's works in bfloat16; this is its formula in the dtype of the parameter."""

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_steps=5,
                 adjust_lr=0):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum,
                                      nesterov=nesterov, ns_steps=ns_steps, adjust_lr=adjust_lr))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None or p.numel() == 0:
                    continue
                m = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                m.lerp_(p.grad, 1 - group["momentum"])
                x = p.grad.lerp(m, group["momentum"]) if group["nesterov"] else m.clone()
                rows, columns = p.shape
                x = x.T if rows > columns else x
                x = x / x.norm().clamp(min=1e-7)
                for _ in range(group["ns_steps"]):
                    gram = x @ x.T
                    x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
                x = x.T if rows > columns else x
                ratio = 0.2 * max(rows, columns) ** 0.5 if group["adjust_lr"] else max(1, rows / columns) ** 0.5
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(x, alpha=-group["lr"] * ratio)


def make(name, params, options):
    """Our option names to PyTorch's arguments."""
    o = dict(options)
    defaults = {"nadam": (0.9, 0.999), "lion": (0.9, 0.99)}.get(name, (0.9, 0.999))
    if "beta1" in o or "beta2" in o:
        o["betas"] = (o.pop("beta1", defaults[0]), o.pop("beta2", defaults[1]))
    if "etaminus" in o:
        o["etas"] = (o.pop("etaminus"), o.pop("etaplus"))
        o["step_sizes"] = (o.pop("step_min"), o.pop("step_max"))
    made = {"lion": Lion, "muon": Muon}.get(name) or getattr(torch.optim, PYTORCH[name])
    return made(params, **o)


def run_case(key, name, options, grouped):
    used = MATRICES if name == "muon" else range(len(SHAPES))
    for dtype, text in ((torch.float32, "f32"), (torch.float64, "f64")):
        params = [t.to(dtype).clone().requires_grad_() for t in start]
        groups = [params[i] for i in used]
        if grouped:
            groups = [dict(params=params[:3]), dict(params=params[3:], **SECOND)]
        optimizer = make(name, groups, options)
        for step in range(STEPS):
            for i, p in enumerate(params):
                p.grad = None if (step, i) in ABSENT else grads[step, i].to(dtype).clone()
            optimizer.step()
            if step in (0, STEPS - 1):
                for i in used:
                    arrays[f"{key}.{text}.{step}.{i}"] = params[i].detach().clone()


for number, (name, options) in enumerate(CASES):
    arrays[f"rule.{number}.{name}"] = torch.zeros(())
    for option, value in options.items():
        arrays[f"option.{number}.{option}"] = torch.tensor(float(value), dtype=torch.float64)
    run_case(f"case.{number}", name, options, False)
    if number in GROUPED:
        run_case(f"grouped.{number}", name, options, True)

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
