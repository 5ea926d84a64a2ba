"""The full check of the leased GPUs, with the tools that are there: what nvidia-smi
counts of errors and throttling, and by torch in the job's own environment a matrix product and, of
several GPUs, an all-reduce by NCCL among them."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from yarnam.wire.protocol import LOCAL_ENVIRONMENT

SMI_LIMIT_S, TORCH_LIMIT_S = 5.0, 15.0
"""Seconds. The first call of CUDA loads hundreds of megabytes of libraries."""

FIELDS = (
    "index",
    "uuid",
    "ecc.errors.uncorrected.volatile.total",
    "clocks_throttle_reasons.hw_slowdown",
)
QUERY = f"--query-gpu={','.join(FIELDS)}"

TORCH = """
import sys, time
try:
    import torch
except ImportError:
    raise SystemExit("torch is not in the job's environment")
if not torch.cuda.is_available():
    raise SystemExit("torch sees no GPU")
size, slowest = 4096, None
for device in range(torch.cuda.device_count()):
    a = torch.randn(size, size, device=device, dtype=torch.float16)
    best = float("inf")
    for _ in range(12):
        torch.cuda.synchronize(device)
        began = time.perf_counter()
        b = a @ a
        torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - began)
    assert torch.isfinite(b.float()).all()
    rate = 2 * size**3 / best / 1e12
    slowest = rate if slowest is None else min(slowest, rate)
print(slowest)
sys.stdout.flush()
count = torch.cuda.device_count()
if count > 1:
    from torch.cuda import nccl
    # 64 MiB: large enough that the links count, not the start of the operation.
    data = [torch.ones(1 << 24, device=device) for device in range(count)]
    best = float("inf")
    for _ in range(6):
        for device in range(count):
            torch.cuda.synchronize(device)
        began = time.perf_counter()
        nccl.all_reduce(data)
        for device in range(count):
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - began)
    assert all(bool((one == float(count) ** 6).all()) for one in data), "NCCL gave a wrong sum"
    print(2 * (count - 1) / count * 4 * (1 << 24) / best / 2**30)
"""
"""Prints TFLOP/s of the slowest device, in half precision, then the bus bandwidth of the all-reduce
in GiB/s: 2 (n - 1) / n of its bytes in its time, which does not depend on n (nccl-tests,
PERFORMANCE.md)."""


class GpuMeasures(NamedTuple):
    """As in ``NodeMeasures``."""

    tflops: float = 0.0
    nccl_gib_s: float = 0.0
    trouble: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()


NO_GPUS = GpuMeasures()


async def measure_gpus(gpus: tuple[str, ...], directory: Path) -> GpuMeasures:
    """What cannot be run is named in ``not_run``."""
    trouble: list[str] = []
    not_run: list[str] = []
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return GpuMeasures(not_run=("GPUs: no nvidia-smi on this node",))
    code, text = await _run([smi, QUERY, "--format=csv,noheader"], SMI_LIMIT_S, {})
    if "not a valid field" in text:
        not_run.append("GPU errors: this nvidia-smi does not report them")
    elif code != 0:
        return GpuMeasures(trouble=(f"nvidia-smi failed: {text.strip()[-200:]}",))
    trouble.extend(gpu_trouble(text, gpus))
    shipped = directory / LOCAL_ENVIRONMENT / "bin/python"
    python = str(shipped) if shipped.exists() else shutil.which("python3") or sys.executable
    code, text = await _run(
        [python, "-c", TORCH], TORCH_LIMIT_S, {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    )
    lines = text.strip().splitlines()
    numbers = _numbers(lines)
    last = (lines or [f"exit code {code}"])[-1][:200]
    tflops = nccl_gib_s = 0.0
    if numbers:
        tflops = numbers[0]
    else:
        not_run.append(f"matrix product: {last}")
    if len(gpus) < 2:
        not_run.append("NCCL: one GPU alone has nobody to talk to")
    elif len(numbers) > 1 and code == 0:
        nccl_gib_s = numbers[1]
    elif "NCCL gave a wrong sum" in text:
        trouble.append("NCCL: the all-reduce among the GPUs of this node gave a wrong sum")
    elif numbers:
        not_run.append(f"NCCL: {last}")
    return GpuMeasures(tflops, nccl_gib_s, tuple(trouble), tuple(not_run))


def _numbers(lines: Sequence[str]) -> list[float]:
    """Those that are one; libraries print warnings, too."""
    found = []
    for line in lines:
        with suppress(ValueError):
            found.append(float(line))
    return found


def gpu_trouble(text: str, gpus: tuple[str, ...]) -> list[str]:
    """What nvidia-smi's answer to ``QUERY`` says against the leased GPUs."""
    found = []
    for line in text.splitlines():
        index, uuid, errors, slowdown = ([part.strip() for part in line.split(",")] + [""] * 4)[:4]
        if index not in gpus and uuid not in gpus:
            continue
        if errors.isdigit() and int(errors):
            found.append(f"GPU {index}: {errors} uncorrected memory errors (ECC)")
        if slowdown == "Active":
            found.append(f"GPU {index}: slowed down by its hardware (heat or power)")
    return found


async def _run(command: list[str], limit_s: float, env: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a command; of one that takes too long 124."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **env},
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), limit_s)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()
        return 124, f"not over after {limit_s:.0f} s"
    return process.returncode or 0, out[:65536].decode("utf-8", "replace")
