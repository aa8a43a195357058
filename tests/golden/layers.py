# SPDX-License-Identifier: Apache-2.0
"""Golden data for layers: state dict, input, output and gradients of each, by PyTorch.

    OMP_NUM_THREADS=1 python tests/golden/layers.py      writes layers.bin beside itself

Normalising layers have seen a batch before, so that running statistics are no defaults."""
import pathlib

import torch
from torch import nn

import golden_file

LAYERS = {
    "rms_norm": (nn.RMSNorm([4, 5]), (3, 4, 5)),
    "group_norm": (nn.GroupNorm(2, 6), (3, 6, 5)),
    "batch_norm1d": (nn.BatchNorm1d(4), (6, 4)),
    "batch_norm1d_mean": (nn.BatchNorm1d(4, momentum=None), (3, 4, 7)),
    "batch_norm2d": (nn.BatchNorm2d(3, eps=1e-3, momentum=0.3), (4, 3, 5, 2)),
    "batch_norm2d_plain": (nn.BatchNorm2d(3, affine=False, track_running_stats=False), (4, 3, 2, 2)),
    "conv1d": (nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 9)),
    "conv2d": (nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
               (2, 4, 7, 6)),
    "conv2d_bare": (nn.Conv2d(3, 2, 1, bias=False), (2, 3, 4, 4)),
    "max_pool1d": (nn.MaxPool1d(3, 2, 1), (2, 3, 8)),
    "max_pool2d": (nn.MaxPool2d((3, 2)), (2, 3, 7, 6)),
    "avg_pool1d": (nn.AvgPool1d(2), (2, 3, 8)),
    "avg_pool2d": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), (2, 3, 7, 6)),
    "adaptive_avg_pool1d": (nn.AdaptiveAvgPool1d(3), (2, 3, 8)),
    "adaptive_avg_pool2d": (nn.AdaptiveAvgPool2d((2, 3)), (2, 3, 7, 6)),
    "silu": (nn.SiLU(), (3, 4)),
    "tanh": (nn.Tanh(), (3, 4)),
    "sigmoid": (nn.Sigmoid(), (3, 4)),
    "softmax": (nn.Softmax(1), (3, 4, 2)),
    "log_softmax": (nn.LogSoftmax(-1), (3, 4, 2)),
    "identity": (nn.Identity(), (3, 4)),
    "flatten": (nn.Flatten(), (3, 4, 2)),
}


def main():
    torch.manual_seed(1)
    arrays = {}
    for name, (layer, shape) in LAYERS.items():
        layer = layer.double()
        for p in layer.parameters():
            nn.init.normal_(p)
        layer(torch.randn(shape, dtype=torch.float64))
        for key, value in layer.state_dict().items():
            arrays[f"{name}.state.{key}"] = value.clone()
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        y = layer(x)
        dy = torch.randn_like(y)
        y.backward(dy)
        arrays |= {f"{name}.x": x, f"{name}.y": y, f"{name}.dy": dy, f"{name}.dx": x.grad}
        for key, p in layer.named_parameters():
            arrays[f"{name}.grad.{key}"] = p.grad
        for key, b in layer.named_buffers():
            arrays[f"{name}.after.{key}"] = b.clone()
        arrays[f"{name}.eval"] = layer.eval()(x)
    golden_file.write(pathlib.Path(__file__).with_suffix(".bin"), arrays)


main()
