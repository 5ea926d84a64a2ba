"""Fits y = 3x - 1 as an elastic script for horovodrun does: nothing in it knows of yarnam."""

from __future__ import annotations

from typing import Any

import horovod.torch as hvd
import torch

STEPS, POINTS = 2000, 64

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
    while state.step < STEPS:
        x = torch.rand(POINTS, 1, device=device) * 2 - 1
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), 3 * x - 1).backward()
        optimizer.step()
        state.step += 1
        if state.step % 10 == 0:
            state.commit()


train(hvd.elastic.TorchState(model, optimizer, step=0))
if hvd.rank() == 0:
    line = f"y = {model.weight.item():.3f} x {model.bias.item():+.3f}"
    print(f"{hvd.size()} ranks: {line}", flush=True)
