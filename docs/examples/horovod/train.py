"""Fits y = 3x - 1 as a script for horovodrun does: nothing in it knows of yarnam."""

from __future__ import annotations

import horovod.torch as hvd
import torch

STEPS, POINTS = 200, 64

hvd.init()
device = torch.device("cpu")
if torch.cuda.is_available():
    device = torch.device("cuda", hvd.local_rank())
torch.manual_seed(hvd.rank())  # points of its own
model = torch.nn.Linear(1, 1).to(device)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.5), named_parameters=model.named_parameters()
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for _ in range(STEPS):
    x = torch.rand(POINTS, 1, device=device) * 2 - 1
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), 3 * x - 1).backward()
    optimizer.step()
if hvd.rank() == 0:
    line = f"y = {model.weight.item():.3f} x {model.bias.item():+.3f}"
    print(f"{hvd.size()} ranks: {line}", flush=True)
