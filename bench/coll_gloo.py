#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The collectives of PyTorch's gloo backend, measured and checked as `tessera bench coll` does it.

usage: coll_gloo.py NAME OPS SIZES SECONDS [HOSTS], as one of the ranks that RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT describe.  Prints the same JSON lines, with NAME as backend.
"""
import json
import math
import os
import sys
import time

import torch
import torch.distributed as dist

SAMPLE_US, MAX_CALLS, MIN_SAMPLES, MAX_SAMPLES = 50, 500, 5, 2000


def pattern(i, rank):
    return (i % 3 + rank % 4).float()


class Case:
    def __init__(self, op, size):
        self.op, self.size = op, size
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.count = max(1, size // 4)
        self.piece = max(1, self.count // self.ranks)
        pieces = self.piece * self.ranks
        inputs = {"all_gather": self.piece, "gather": self.piece, "scatter": pieces,
                  "reduce_scatter": pieces, "all_to_all": pieces}
        outputs = {"all_gather": pieces, "gather": pieces, "scatter": self.piece,
                   "reduce_scatter": self.piece, "all_to_all": pieces}
        self.input = torch.zeros(inputs.get(op, self.count))
        self.output = torch.zeros(outputs[op]) if op in outputs else self.input
        self.rooted = op in ("reduce", "broadcast", "gather", "scatter")

    def call(self, number):
        root = number % self.ranks if self.rooted else 0
        getattr(self, self.op)(root)

    def all_reduce(self, root):
        dist.all_reduce(self.input)

    def reduce(self, root):
        dist.reduce(self.input, root)

    def broadcast(self, root):
        dist.broadcast(self.input, root)

    def all_gather(self, root):
        dist.all_gather_into_tensor(self.output, self.input)

    def gather(self, root):
        parts = list(self.output.chunk(self.ranks)) if self.rank == root else None
        dist.gather(self.input, parts, root)

    def scatter(self, root):
        parts = list(self.input.chunk(self.ranks)) if self.rank == root else None
        dist.scatter(self.output, parts, root)

    def reduce_scatter(self, root):
        dist.reduce_scatter_tensor(self.output, self.input)

    def all_to_all(self, root):
        dist.all_to_all_single(self.output, self.input)

    def barrier(self, root):
        dist.barrier()

    def send_recv(self, root):
        if self.rank == 0:
            dist.send(self.input, self.ranks - 1)
        elif self.rank == self.ranks - 1:
            dist.recv(self.input, 0)

    def ping_pong(self, root):
        if self.rank == 0:
            dist.send(self.input, self.ranks - 1)
            dist.recv(self.input, self.ranks - 1)
        elif self.rank == self.ranks - 1:
            dist.recv(self.input, 0)
            dist.send(self.input, 0)

    def expected(self, root):
        """The result on this rank; None: there is none."""
        whole, piece = torch.arange(self.count), torch.arange(self.piece)
        mine, ranks = self.rank * self.piece + piece, range(self.ranks)
        if self.op == "all_reduce" or (self.op == "reduce" and self.rank == root):
            return sum(pattern(whole, r) for r in ranks)
        if self.op in ("send_recv", "ping_pong") and self.rank not in (0, self.ranks - 1):
            return None
        if self.op in ("broadcast", "send_recv", "ping_pong"):
            return pattern(whole, root)
        if self.op == "all_gather" or (self.op == "gather" and self.rank == root):
            return torch.cat([pattern(piece, r) for r in ranks])
        if self.op == "scatter":
            return pattern(mine, root)
        if self.op == "reduce_scatter":
            return sum(pattern(mine, r) for r in ranks)
        if self.op == "all_to_all":
            return torch.cat([pattern(mine, r) for r in ranks])
        return None

    def check(self, number):
        root = number % self.ranks if self.rooted else 0
        self.input.copy_(pattern(torch.arange(self.input.numel()), self.rank))
        self.call(number)
        wanted = self.expected(root)
        if wanted is not None and not torch.equal(self.output, wanted):
            sys.exit(f"coll_gloo: wrong result of {self.op}, {self.size} bytes, rank {self.rank}")

    def sample(self, first, calls):
        dist.barrier()
        begin = time.perf_counter()
        for i in range(first, first + calls):
            self.call(i)
        return (time.perf_counter() - begin) * 1e6 / calls


def slowest(values):
    t = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(t, dist.ReduceOp.MAX)
    return t.tolist()


def measure(case, name, seconds, hosts):
    case.check(0)
    case.input.zero_()
    each = slowest([case.sample(0, 5)])[0]
    calls = int(max(1, min(math.ceil(SAMPLE_US / each), MAX_CALLS)))
    samples = int(max(MIN_SAMPLES, min(seconds * 1e6 / (each * calls), MAX_SAMPLES)))
    us = slowest([case.sample(i * calls, calls) for i in range(samples)])
    us = sorted(u / 2 if case.op == "ping_pong" else u for u in us)
    case.check(case.ranks - 1)
    if case.rank == 0:
        print(json.dumps({
            "op": case.op, "bytes": 0 if case.op == "barrier" else case.count * 4,
            "ranks": case.ranks, "hosts": hosts, "backend": name, "memory": "heap", "dtype": "f32",
            "us_median": (us[samples // 2] + us[(samples - 1) // 2]) / 2, "us_min": us[0],
            "us_p99": us[math.ceil(0.99 * samples) - 1], "check": "ok", "samples": samples,
            "calls_per_sample": calls}), flush=True)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    name, ops, sizes, seconds = sys.argv[1:5]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for op in ops.split(","):
        for size in ["0"] if op == "barrier" else sizes.split(","):
            measure(Case(op, int(size)), name, float(seconds),
                    int(sys.argv[5]) if len(sys.argv) > 5 else 1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
