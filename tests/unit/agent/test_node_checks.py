"""What an agent measures of its node."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from yarnam.agent.checks import gpu_measures, node_measures
from yarnam.agent.checks.gpu_measures import gpu_trouble, measure_gpus


def test_all_measures_are_rates_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_measures, "WINDOW_S", 0.001)
    assert node_measures.cpu_mib_s(0.001) > 0
    assert node_measures.memory_mib_s(0.001) > 0
    assert node_measures.disk_mib_s(tmp_path, 0.001) > 0
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="node-check"):
        node_measures.disk_mib_s(tmp_path / "missing", 0.0)


def test_the_best_window_counts_and_in_it_all_that_was_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(node_measures.time, "perf_counter", lambda: now[0])
    # A tenth of the time is left, in every window; then one in which the node is free.
    pattern = ([0.02] * 2 + [0.17]) * 3 + [0.01] * 30

    def work() -> None:
        now[0] += pattern.pop(0) if pattern else 0.01

    assert node_measures._best(work, node_measures.MIB, 0.55) == pytest.approx(14.3, abs=0.1)
    assert node_measures._best(work, node_measures.MIB, 0.2) == pytest.approx(100.0, abs=1.0)


SMI = """\
0, GPU-aa, 0, Not Active
1, GPU-bb, 3, Active
2, GPU-cc, [N/A], Active
x
"""


def test_what_nvidia_smi_says_against_the_leased_gpus() -> None:
    assert gpu_trouble(SMI, ("0",)) == []
    assert gpu_trouble(SMI, ("1",)) == [
        "GPU 1: 3 uncorrected memory errors (ECC)",
        "GPU 1: slowed down by its hardware (heat or power)",
    ]
    assert len(gpu_trouble(SMI, ("GPU-cc", "0"))) == 1


def tool(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("smi", "python", "trouble", "not_run", "tflops"),
    [
        (None, "", [], ["GPUs: no nvidia-smi"], 0.0),
        ("echo '0, GPU-aa, 0, Not Active'", "echo 312.5", [], ["NCCL"], 312.5),
        ("echo '0, GPU-aa, 7, Not Active'", "echo 312.5", ["GPU 0: 7 unc"], ["NCCL"], 312.5),
        (
            "echo 'Field \"x\" is not a valid field to query.'; exit 2",
            "echo 312.5",
            [],
            ["GPU errors: this nvidia-smi", "NCCL"],
            312.5,
        ),
        ("echo no driver; exit 9", "echo 1", ["nvidia-smi failed: no driver"], [], 0.0),
        (
            "echo '0, GPU-aa, 0, Not Active'",
            "echo torch is not there; exit 1",
            [],
            ["matrix product: torch is not there", "NCCL"],
            0.0,
        ),
    ],
)
async def test_gpus_are_measured_with_the_tools_that_are_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    smi: str | None,
    python: str,
    trouble: list[str],
    not_run: list[str],
    tflops: float,
) -> None:
    (tmp_path / "environment/bin").mkdir(parents=True)
    tool(tmp_path / "environment/bin", "python", python)
    if smi is not None:
        tool(tmp_path, "nvidia-smi", smi)
    found = str(tmp_path / "nvidia-smi") if smi is not None else None
    monkeypatch.setattr(gpu_measures.shutil, "which", lambda name: found)
    report = await measure_gpus(("0",), tmp_path)
    assert [text for text in report.trouble if not text.startswith(tuple(trouble) or "?")] == []
    assert len(report.trouble) == len(trouble)
    starts = zip(report.not_run, not_run, strict=True)
    assert all(text.startswith(start) for text, start in starts)
    assert report.tflops == tflops


TORCH = """
import time
float16 = "half"
class Cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: COUNT)
    synchronize = staticmethod(lambda device: None)
class Tensor:
    def __init__(self, value=1.0): self.value = value
    def __matmul__(self, other): return time.sleep(0.002) or Tensor()
    def float(self): return self
    def __eq__(self, other): return Tensor(self.value == other)
    def all(self): return self.value
def randn(*size, device, dtype): return Tensor()
def ones(size, device): return Tensor()
def isfinite(tensor): return Tensor(True)
"""
"""What the check uses of torch, without devices."""

NCCL = """
import time
def all_reduce(data):
    time.sleep(0.02)
    total = sum(one.value for one in data)
    for one in data: one.value = total + WRONG
"""


def fake_torch(folder: Path, count: int, nccl: str) -> None:
    (folder / "torch/cuda").mkdir(parents=True)
    own = "from torch import Cuda\n"
    for name in ("is_available", "device_count", "synchronize"):
        own += f"{name} = Cuda.{name}\n"
    (folder / "torch/cuda/__init__.py").write_text(own)
    code = TORCH.replace("COUNT", str(count)) + "import torch.cuda as cuda\n"
    (folder / "torch/__init__.py").write_text(code)
    (folder / "torch/cuda/nccl.py").write_text(nccl)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("count", "nccl", "trouble", "not_run"),
    [
        (1, "", [], ["NCCL: one GPU alone"]),
        (2, NCCL.replace("WRONG", "0"), [], []),
        (4, NCCL.replace("WRONG", "1"), ["NCCL: the all-reduce among the GPUs of this node"], []),
        (2, "raise RuntimeError('NCCL error: unhandled system error')", [], ["NCCL: RuntimeError"]),
    ],
)
async def test_matrix_product_and_all_reduce(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    nccl: str,
    trouble: list[str],
    not_run: list[str],
) -> None:
    """By the program that runs on a node, with a library in place of torch."""
    fake_torch(tmp_path / "lib", count, nccl)
    tool(tmp_path, "nvidia-smi", "true")
    (tmp_path / "environment/bin").mkdir(parents=True)
    run = f'PYTHONPATH={tmp_path}/lib exec {sys.executable} "$@"'
    tool(tmp_path / "environment/bin", "python", run)
    monkeypatch.setattr(gpu_measures.shutil, "which", lambda _: str(tmp_path / "nvidia-smi"))
    report = await measure_gpus(tuple(map(str, range(count))), tmp_path)
    assert [
        text[: len(start)] for text, start in zip(report.trouble, trouble, strict=True)
    ] == trouble
    assert [
        text[: len(start)] for text, start in zip(report.not_run, not_run, strict=True)
    ] == not_run
    # 2 * 4096^3 operations in 2 ms and more.
    assert 1.0 < report.tflops < 69.0
    assert (0.1 < report.nccl_gib_s < 3.2) == (count == 2 and not not_run)
