"""Handwritten digits by accelerate: started as it is, not by `accelerate launch`."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 12

accelerator = Accelerator(cpu=not torch.cuda.is_available())
set_seed(0)
digits = load_digits()
pictures = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
train, test = order[360:], order[:360]
layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
model, optimizer, data = accelerator.prepare(
    layers,
    torch.optim.Adam(layers.parameters(), lr=3e-3),
    DataLoader(TensorDataset(pictures[train], labels[train]), batch_size=16, shuffle=True),
)
for _ in range(EPOCHS):
    for batch, wanted in data:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.cross_entropy(model(batch), wanted))
        optimizer.step()
print(f"rank {accelerator.process_index} of {accelerator.num_processes}", flush=True)
if accelerator.is_main_process:
    right = accelerator.unwrap_model(model).cpu()(pictures[test]).argmax(1) == labels[test]
    print(f"test accuracy {right.float().mean():.3f}", flush=True)
accelerator.end_training()
