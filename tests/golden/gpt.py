# SPDX-License-Identifier: Apache-2.0
"""Golden data for training: a GPT by PyTorch from given weights and tokens.

    OMP_NUM_THREADS=1 python tests/golden/gpt.py      writes gpt.bin beside itself

A larger model, for benchmarks:
    python tests/golden/gpt.py --layers 4 --dim 256 --heads 8 --seq 128 --batch 8 --vocab 512 \\
        --sgd-lr 0.01 --out /tmp/gpt_4x256.bin"""
import argparse
import math
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

import golden_file


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(dim, 3 * dim)
        self.c_proj = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2)
                   for part in self.c_attn(x).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c_fc = nn.Linear(dim, 4 * dim)
        self.c_proj = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.ln_2 = nn.LayerNorm(dim)
        self.mlp = FeedForward(dim)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab, block_size, layers, heads, dim):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab, dim),
            "wpe": nn.Embedding(block_size, dim),
            "h": nn.ModuleList(Block(dim, heads) for _ in range(layers)),
            "ln_f": nn.LayerNorm(dim),
        })
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.lm_head.weight = self.transformer.wte.weight
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif p.dim() == 2:
                residual = name.endswith("c_proj.weight")
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * layers) if residual else 0.02)

    def forward(self, tokens, targets):
        t = self.transformer
        x = t.wte(tokens) + t.wpe(torch.arange(tokens.shape[1]))
        for block in t.h:
            x = block(x)
        logits = self.lm_head(t.ln_f(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_tokens(steps, batch, seq, vocab):
    """Sequences with something to learn: the next token is usually a function of the last one."""
    table = torch.randint(vocab, (vocab,))
    tokens = torch.randint(vocab, (steps, batch, seq + 1))
    for i in range(1, seq + 1):
        follow = torch.rand(steps, batch) < 0.8
        tokens[:, :, i] = torch.where(follow, table[tokens[:, :, i - 1]], tokens[:, :, i])
    return tokens


def train(model, tokens, make_optimizer):
    optimizer = make_optimizer(model.parameters())
    losses = []
    for batch in tokens:
        loss = model(batch[:, :-1], batch[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def main():
    parser = argparse.ArgumentParser()
    for name, value in dict(layers=2, dim=32, heads=4, seq=16, batch=4, vocab=64, steps=50).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--sgd-lr", type=float, default=0.1)
    parser.add_argument("--out", default=pathlib.Path(__file__).with_suffix(".bin"))
    a = parser.parse_args()
    torch.manual_seed(1)
    tokens = make_tokens(a.steps, a.batch, a.seq, a.vocab)
    sizes = (a.vocab, a.seq, a.layers, a.heads, a.dim)
    start = GPT(*sizes).state_dict()

    def model(dtype):
        m = GPT(*sizes)
        m.load_state_dict(start)
        return m.to(dtype)

    def sgd(p):
        return torch.optim.SGD(p, lr=a.sgd_lr, momentum=0.9)

    def adamw(p):
        return torch.optim.AdamW(p, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)

    arrays = {"sizes": torch.tensor(sizes + (a.batch, a.steps)),
              "sgd_lr": torch.tensor(a.sgd_lr, dtype=torch.float64),
              "tokens": tokens.to(torch.int16)}
    for name, value in start.items():
        if name != "lm_head.weight":
            arrays[f"start.{name}"] = value
    first = model(torch.float64)
    first(tokens[0][:, :-1], tokens[0][:, 1:]).backward()
    for name, p in first.named_parameters():
        arrays[f"grad.{name}"] = p.grad.float()
    for name, dtype, make in (("sgd.f32", torch.float32, sgd), ("sgd.f64", torch.float64, sgd),
                              ("adamw.f64", torch.float64, adamw),
                              ("adamw.f32", torch.float32, adamw)):
        arrays[f"loss.{name}"] = losses = train(model(dtype), tokens, make)
        print(f"{name}: {losses[0]:.6f} to {losses[-1]:.6f}")
    for name in ("sgd", "adamw"):
        low, high = arrays[f"loss.{name}.f32"], arrays[f"loss.{name}.f64"]
        print(f"{name}: float32 differs by {((low - high).abs() / high).max():.1e}")
    golden_file.write(a.out, arrays)


main()
