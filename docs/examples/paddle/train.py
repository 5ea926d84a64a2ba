"""Fits y = 3x - 1: each rank has points of its own, and all have the mean of their gradients."""

from __future__ import annotations

import paddle
import paddle.distributed as dist

STEPS, POINTS = 200, 64

dist.init_parallel_env()
rank, ranks = dist.get_rank(), dist.get_world_size()
paddle.seed(rank)
slope = paddle.zeros([1])
offset = paddle.zeros([1])
for _ in range(STEPS):
    x = paddle.rand([POINTS]) * 2 - 1
    error = slope * x + offset - (3 * x - 1)
    gradients = paddle.stack([(error * x).mean(), error.mean()])
    dist.all_reduce(gradients)
    slope = slope - 0.5 * gradients[0] / ranks
    offset = offset - 0.5 * gradients[1] / ranks
print(f"rank {rank} of {ranks}: y = {slope.item():.3f} x {offset.item():+.3f}", flush=True)
