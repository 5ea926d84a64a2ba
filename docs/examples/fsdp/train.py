"""Handwritten digits by FSDP: each rank holds a share of the parameters, gradients and moments."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

EPOCHS, BATCH = 12, 64  # over all ranks

cuda = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if cuda else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh(device.type, (ranks,))

torch.manual_seed(0)  # the same first weights everywhere
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

digits = load_digits()
pictures = torch.tensor(digits.data / 16, dtype=torch.float32, device=device)
labels = torch.tensor(digits.target, device=device)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
train, test = order[360:], order[:360]
for epoch in range(EPOCHS):
    shuffled = train[torch.randperm(len(train), generator=torch.Generator().manual_seed(epoch))]
    for batch in shuffled.split(BATCH):
        mine = batch[rank::ranks]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures[mine]), labels[mine]).backward()
        optimizer.step()

weights = [one for one in model.parameters() if isinstance(one, DTensor)]
held = sum(one.to_local().numel() for one in weights)
print(
    f"rank {rank} of {ranks} holds {held} of {sum(w.numel() for w in weights)} weights", flush=True
)
right = model(pictures[test]).argmax(1) == labels[test]  # all ranks gather the weights for it
if rank == 0:
    print(f"test accuracy {right.float().mean():.3f}", flush=True)
dist.destroy_process_group()
