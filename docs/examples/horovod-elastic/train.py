"""Fits y = 3x - 1 as an elastic script for horovodrun does: nothing in it knows of yarnam."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import horovod.torch as hvd
import torch

POINTS = 64

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step")
parser.add_argument("--until", type=Path, help="and go on until this file is there")
options = parser.parse_args()

hvd.init()
device = torch.device("cpu")
if torch.cuda.is_available():
    device = torch.device("cuda", hvd.local_rank())
model = torch.nn.Linear(1, 1).to(device)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.5), named_parameters=model.named_parameters()
)


@hvd.elastic.run
def train(state: Any) -> None:
    """Begins again here, with the last commit, whenever a task has come or gone."""
    print(f"rank {hvd.rank()} of {hvd.size()} begins with step {state.step}", flush=True)
    while state.step < options.steps or not state.is_enough:
        x = torch.rand(POINTS, 1, device=device) * 2 - 1
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), 3 * x - 1).backward()
        optimizer.step()
        time.sleep(options.pause)
        state.step += 1
        if state.step % 10 == 0:
            # By the word of rank 0, so that all end after the same step.
            is_enough = options.until is None or options.until.exists()
            state.is_enough = hvd.broadcast_object(is_enough, root_rank=0)
            state.commit()


state = hvd.elastic.TorchState(model, optimizer, step=0, is_enough=False)
train(state)
if hvd.rank() == 0:
    line = f"y = {model.weight.item():.3f} x {model.bias.item():+.3f}"
    print(f"{hvd.size()} ranks, {state.step} steps: {line}", flush=True)
