#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of `tessera bench train --model gpt`: the same model and step in PyTorch, eager.

usage: torch_gpt.py [--layers 4 --dim 256 --heads 8 --seq 128 --batch 8 --vocab 512 --steps 20 --ranks 1]

Prints one JSON object with the median step time and tokens/s over all ranks.  With --ranks N it
starts N processes with DistributedDataParallel over gloo, each with its own batch.
Set OMP_NUM_THREADS and MKL_NUM_THREADS.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc, self.fc_proj = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.fc_proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(a.vocab, a.dim), nn.Embedding(a.seq, a.dim)
        self.h = nn.ModuleList(Block(a.dim, a.heads) for _ in range(a.layers))
        self.ln_f, self.lm_head = nn.LayerNorm(a.dim), nn.Linear(a.dim, a.vocab, bias=False)
        self.lm_head.weight = self.wte.weight
        for p in self.parameters():  # as GPT-2; larger weights saturate the softmax into denormals
            nn.init.normal_(p, 0.0, 0.02) if p.dim() > 1 else None

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def run(rank, a, results):
    torch.manual_seed(rank)
    torch.set_num_threads(a.threads)
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[(rank * a.threads + i) % len(cores)] for i in range(a.threads)})
    model = Gpt(a)
    params = sum(p.numel() for p in model.parameters())
    if a.ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(a.port))
        dist.init_process_group("gloo", rank=rank, world_size=a.ranks)
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    times = []
    for step in range(a.steps + 3):
        tokens = torch.randint(0, a.vocab, (a.batch, a.seq))
        start = time.perf_counter()
        loss = model(tokens, tokens)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step >= 3:
            times.append(time.perf_counter() - start)
    if rank == 0:
        median = statistics.median(times)
        results.put({"peer": "torch " + torch.__version__, "ranks": a.ranks, "params": params,
                     "step_ms": 1e3 * median, "tokens_per_s": a.ranks * a.batch * a.seq / median})
    if a.ranks > 1:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    for name, default in dict(layers=4, dim=256, heads=8, seq=128, batch=8, vocab=512, steps=20, ranks=1,
                              threads=1, port=29511).items():
        parser.add_argument("--" + name, type=int, default=default)
    a = parser.parse_args()
    results = mp.get_context("spawn").SimpleQueue()
    if a.ranks == 1:
        run(0, a, results)
    else:
        mp.spawn(run, (a, results), nprocs=a.ranks)
    print(json.dumps(results.get()))


if __name__ == "__main__":
    main()
