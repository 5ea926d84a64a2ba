"""Handwritten digits by DistributedDataParallel, as written for `torchrun train.py` on one machine.

Nothing in it knows of yarnam: on the cluster it runs unchanged.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS = 12


def digits() -> tuple[TensorDataset, TensorDataset]:
    """For training, and for the test."""
    found = load_digits()
    pictures = torch.tensor(found.data / 16, dtype=torch.float32)
    labels = torch.tensor(found.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[360:], order[:360]
    return TensorDataset(pictures[train], labels[train]), TensorDataset(
        pictures[test], labels[test]
    )


def main() -> None:
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    train, test = digits()
    sampler = DistributedSampler(train)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for pictures, labels in DataLoader(train, batch_size=16, sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pictures.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
    print(f"rank {rank} of {ranks} has learnt from {len(sampler)} digits", flush=True)
    if rank == 0:
        pictures, labels = test.tensors
        right = model.module(pictures.to(device)).argmax(1).cpu() == labels
        print(f"test accuracy {right.float().mean():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
