"""torch.distributed.checkpoint on our storage: real ranks, another world size, damage."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.integration.framework_venvs import beside_ours
from tests.unit.hdfs_utils.checkpoints.memory_node import Node

RANK = """
    import os, sys, torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from hdfs_utils.checkpoints import CheckpointMemory, Checkpointer, Limits, Token
    from hdfs_utils.checkpoints.frameworks import torch_distributed

    home, attempt, damage = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    holder = os.environ.get("HOLDER")
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(10 * 6, dtype=torch.float32).reshape(10, 6)
    half = torch.ones(7, 4, dtype=torch.bfloat16) * 1.5

    def state(factor):
        return {
            "w": distribute_tensor(whole * factor, mesh, [Shard(0)]),
            "c": distribute_tensor(half * factor, mesh, [Shard(1)]),
            "r": distribute_tensor(whole * factor, mesh, [Replicate()]),
            "step": torch.tensor(int(factor)),
            "note": {"lr": 0.1 * factor},
        }

    one = Checkpointer(
        home, rank=rank, world_size=size, token=Token("job", (attempt,)),
        memory=CheckpointMemory(holder) if holder else None,
        limits=Limits(patience_s=2.0), report=lambda s: print("skipped", s.was, file=sys.stderr),
    )
    into = state(0)
    found = one.restore(lambda opened: torch_distributed.load(opened, into))
    if found is not None:
        checkpoint, into = found
        f = checkpoint.step
        assert torch.equal(into["w"].full_tensor(), whole * f)
        assert torch.equal(into["c"].full_tensor(), half * f)
        assert torch.equal(into["r"].to_local(), whole * f)
        assert int(into["step"]) == f and into["note"]["lr"] == 0.1 * f
        sources = f" from {set(one.read_from)}" if holder else ""
        print(f"rank {rank} of {size} restored {f}{sources}", flush=True)
    for step in ((1, 2) if attempt == 1 else (3,)):
        saved = torch_distributed.save(one, step, state(step), {"a": 1}, {"loss": 1 / step})
        assert (saved is not None) == (rank == 0)
    if rank == 0 and damage == "damage":
        path = f"{saved.path}/{saved.shards[1].file}"
        with open(path, "r+b") as file:
            byte = file.read(1)[0]
            file.seek(0)
            file.write(bytes([byte ^ 1]))
    dist.barrier()
    dist.destroy_process_group()
"""


def ranks(home: str, size: int, attempt: int, damage: str, holder: str = "") -> tuple[str, str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": beside_ours("torch"),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(size),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "HOLDER": holder,
    }
    program = textwrap.dedent(RANK)
    command = [sys.executable, "-W", "ignore", "-c", program, home, str(attempt), damage]
    started = [
        subprocess.Popen(
            command,
            env={**env, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        said = [process.communicate(timeout=200) for process in started]
    finally:
        for process in started:
            process.kill()
    assert not any(process.returncode for process in started), [err[-3000:] for _, err in said]
    return "".join(out for out, _ in said), "".join(err for _, err in said)


@pytest.mark.frameworks
@pytest.mark.timeout(1800)
def test_distributed_tensors_are_saved_and_restored_on_another_world_size(tmp_path: Path) -> None:
    home = f"file://{tmp_path}/c"
    ranks(home, 3, 1, "")
    out, _ = ranks(home, 2, 2, "damage")
    assert sorted(out.splitlines()) == ["rank 0 of 2 restored 2", "rank 1 of 2 restored 2"]
    # Step 3 is damaged: all go back to step 2.
    out, err = ranks(home, 3, 3, "")
    assert sorted(out.splitlines()) == [f"rank {rank} of 3 restored 2" for rank in range(3)]
    assert "skipped" in err
    assert list((tmp_path / "c").glob("corrupt-step-0000000003-*"))


@pytest.mark.frameworks
@pytest.mark.timeout(1800)
def test_distributed_tensors_are_restored_from_memory_on_another_world_size(tmp_path: Path) -> None:
    node = Node()
    try:
        ranks(f"file://{tmp_path}/c", 3, 1, "", node.unix)
        out, _ = ranks(f"file://{tmp_path}/c", 2, 2, "", node.unix)
    finally:
        node.holder.close()
    restored = [f"rank {rank} of 2 restored 2 from {{'memory'}}" for rank in range(2)]
    assert sorted(out.splitlines()) == restored
