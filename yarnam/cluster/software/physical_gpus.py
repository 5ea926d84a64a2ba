"""The GPUs this machine really has."""

from __future__ import annotations

import shutil
import subprocess

from yarnam.cluster.shape import PhysicalGpu

# nvidia-smi takes a second or two when the driver has to wake up; one that hangs has no GPUs
# for us.
NVIDIA_SMI_LIMIT_S = 15


def find_physical_gpus() -> tuple[PhysicalGpu, ...]:
    """Ask nvidia-smi; a machine without it, or with a broken driver, has no GPUs."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    try:
        answer = subprocess.run(
            [tool, "--query-gpu=index,name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=NVIDIA_SMI_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return parse_physical_gpus(answer.stdout)


def parse_physical_gpus(text: str) -> tuple[PhysicalGpu, ...]:
    devices = []
    for line in text.splitlines():
        index, _, model = line.partition(",")
        if index.strip().isdigit():
            devices.append(PhysicalGpu(int(index), model.strip()))
    return tuple(devices)
