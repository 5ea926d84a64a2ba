"""Handwritten digits by DeepSpeed with ZeRO: started as it is, not by `deepspeed`."""

from __future__ import annotations

import deepspeed
import torch
from sklearn.datasets import load_digits
from torch import nn

EPOCHS, BATCH = 12, 16  # of each rank

torch.manual_seed(0)
digits = load_digits()
pictures = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
train, test = order[360:], order[:360]
layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
engine, optimizer, _, _ = deepspeed.initialize(
    model=layers,
    optimizer=torch.optim.Adam(layers.parameters(), lr=3e-3),
    config={
        "train_micro_batch_size_per_gpu": BATCH,
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
    },
)
rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
for epoch in range(EPOCHS):
    shuffled = train[torch.randperm(len(train), generator=torch.Generator().manual_seed(epoch))]
    for batch in shuffled[: len(shuffled) // ranks * ranks][rank::ranks].split(BATCH):
        found = engine(pictures[batch].to(engine.device))
        engine.backward(nn.functional.cross_entropy(found, labels[batch].to(engine.device)))
        engine.step()
print(f"rank {rank} of {ranks}, {type(optimizer).__name__}", flush=True)
if rank == 0:
    right = engine.module.cpu()(pictures[test]).argmax(1) == labels[test]
    print(f"test accuracy {right.float().mean():.3f}", flush=True)
torch.distributed.destroy_process_group()
