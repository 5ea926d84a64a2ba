"""Handwritten digits by DistributedDataParallel, as written for torchrun's elastic mode.

Nothing in it knows of yarnam. Each process keeps a snapshot beside it; whoever starts again, or
anew, goes on from the newest one that any of them has.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


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


def newest(snapshot: Path) -> dict[str, Any] | None:
    """The newest snapshot of all processes; None: there is none yet."""
    mine = torch.load(snapshot) if snapshot.exists() else None
    epochs = [0] * dist.get_world_size()
    dist.all_gather_object(epochs, mine["epoch"] if mine else -1)
    found = [mine]
    dist.broadcast_object_list(found, src=epochs.index(max(epochs)))
    return found[0]


def is_enough(until: Path | None) -> bool:
    """By the word of rank 0, so that all end after the same epoch."""
    found = [until is None or until.exists()]
    dist.broadcast_object_list(found, src=0)
    return found[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each epoch")
    parser.add_argument("--until", type=Path, help="and go on until this file is there")
    options = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    snapshot, begin = Path(f"snapshot.{os.environ['LOCAL_RANK']}"), 0
    if (state := newest(snapshot)) is not None:
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["epoch"]
    print(f"rank {rank} of {ranks} begins with epoch {begin}", flush=True)
    model = DistributedDataParallel(net)
    train, test = digits()
    sampler = DistributedSampler(train)
    epoch = begin
    while epoch < options.epochs or not is_enough(options.until):
        sampler.set_epoch(epoch)
        for pictures, labels in DataLoader(train, batch_size=16, sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pictures.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
        epoch += 1
        draft = snapshot.with_suffix(".draft")
        state = {"epoch": epoch, "model": net.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, draft)
        draft.replace(snapshot)
        time.sleep(options.pause)
    print(f"rank {rank} of {ranks} has learnt from {len(sampler)} digits", flush=True)
    if rank == 0:
        pictures, labels = test.tensors
        right = net(pictures.to(device)).argmax(1).cpu() == labels
        print(f"test accuracy {right.float().mean():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
