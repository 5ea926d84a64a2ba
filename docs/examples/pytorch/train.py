"""Distributed data-parallel training in PyTorch: fit a small network to a known function.

The environment that yarnam gives (``MASTER_ADDR``, ``RANK``, ``WORLD_SIZE``…) is the one that
``init_process_group`` reads by itself. gloo on CPU, NCCL where there are GPUs.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from yarnam import train

STEPS = 400
BATCH = 256  # over all processes


def target(points: torch.Tensor) -> torch.Tensor:
    return torch.sin(3 * points[:, :1]) + points[:, 1:] ** 2


def main() -> None:
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, processes = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the same first weights everywhere
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for step in range(1, STEPS + 1):
        # One global batch for each step, dealt out to the processes.
        draw = torch.Generator().manual_seed(step)
        points = (torch.rand(BATCH, 2, generator=draw) * 2 - 1)[rank::processes].to(device)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(points), target(points))
        loss.backward()  # averages the gradients over all processes
        optimizer.step()
        if step % 50 == 0:
            train.report(step=step, total_steps=STEPS, loss=loss.item())
            if rank == 0:
                print(f"step {step:3} of {STEPS}  loss {loss.item():.4f}", flush=True)
    if rank == 0:
        print(f"done on {processes} processes, MASTER_ADDR {os.environ['MASTER_ADDR']}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
