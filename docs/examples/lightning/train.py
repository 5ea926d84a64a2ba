"""Handwritten digits by Lightning: the shape of the gang is what `lightning_options` gives."""

from __future__ import annotations

import torch
from pytorch_lightning import LightningModule, Trainer, seed_everything
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from yarnam import train


class Digits(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        pictures, labels = batch
        return nn.functional.cross_entropy(self.layers(pictures), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


seed_everything(0)
digits = load_digits()
pictures = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
learnt, test = order[360:], order[:360]
data = DataLoader(TensorDataset(pictures[learnt], labels[learnt]), batch_size=16, shuffle=True)

trainer = Trainer(
    strategy="ddp", max_epochs=12, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, **train.lightning_options(),
)  # fmt: skip
model = Digits()
trainer.fit(model, data)
print(f"rank {trainer.global_rank} of {trainer.world_size}", flush=True)
if trainer.is_global_zero:
    right = model.layers.cpu()(pictures[test]).argmax(1) == labels[test]
    print(f"test accuracy {right.float().mean():.3f}", flush=True)
