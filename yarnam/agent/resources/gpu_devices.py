"""Which GPUs the node has for this task, and which of them each process sees."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from yarnam.errors import Unavailable

ENV_GPU_IDS = "YARNAM_GPU_IDS"
"""The GPUs of one process, comma separated, in its environment."""

NVIDIA_SMI_LIMIT_S = 15.0
"""It takes a second or two when the driver has to wake up; one that hangs is a broken node."""

MAX_COUNTED = 64
"""Highest number of GPUs on a node that merely counts them."""


class GpuDevice(NamedTuple):
    """``ident`` goes into CUDA_VISIBLE_DEVICES; ``lock`` names its lease on this machine."""

    ident: str
    lock: str
    model: str = ""
    """As nvidia-smi names it; empty if it is not known."""


def find_gpu_devices(node_gpus: str, node_key: str, node_model: str = "") -> tuple[GpuDevice, ...]:
    """The devices that this container may take.

    ``node_gpus`` (YARNAM_NODE_GPUS) wins: ``sim:0,1`` for simulated devices, which belong to one
    NodeManager of perhaps several on the machine, else real ids, which belong to the machine;
    ``node_model`` (YARNAM_NODE_GPU_MODEL) is their model.
    Without it nvidia-smi is asked; without that GPUs are mere numbers. Raises Unavailable when
    nvidia-smi is there but fails.
    """
    if node_gpus:
        simulated = node_gpus.startswith("sim:")
        names = [name.strip() for name in node_gpus.removeprefix("sim:").split(",")]
        return tuple(
            GpuDevice(name, f"{node_key}-{name}" if simulated else f"gpu-{name}", node_model)
            for name in names
            if name
        )
    tool = shutil.which("nvidia-smi")
    if tool is not None:
        return parse_gpu_devices(_ask(tool))
    return tuple(GpuDevice(str(number), f"{node_key}-{number}") for number in range(MAX_COUNTED))


def _ask(tool: str) -> str:
    try:
        answer = subprocess.run(
            [tool, "--query-gpu=index,uuid,name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=NVIDIA_SMI_LIMIT_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        text = (error.stderr or error.stdout or "").strip()
        raise Unavailable(f"nvidia-smi failed ({error.returncode}): {text[:500]}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"nvidia-smi failed: {error}") from error
    return answer.stdout


def parse_gpu_devices(text: str) -> tuple[GpuDevice, ...]:
    """Lines of ``index, uuid, name``. The lease goes by the UUID, which is the same in every view
    of the machine; the process gets the index, which goes with CUDA_DEVICE_ORDER=PCI_BUS_ID."""
    devices = []
    for line in text.splitlines():
        index, uuid, model = ([part.strip() for part in line.split(",", 2)] + ["", ""])[:3]
        if index.isdigit():
            devices.append(GpuDevice(index, f"gpu-{uuid or index}", model))
    return tuple(devices)


def model_of(devices: Iterable[GpuDevice]) -> str:
    """The one model of these devices; empty when it is not known, or not one."""
    models = {device.model for device in devices}
    return models.pop() if len(models) == 1 else ""


def gpu_environment(ids: Sequence[str], all_visible: Sequence[str] = ()) -> dict[str, str]:
    """What makes CUDA see the process's devices ``ids``, or ``all_visible`` of its task, and no
    other; none for a task without GPUs."""
    visible = ",".join(all_visible or ids)
    return {
        "CUDA_VISIBLE_DEVICES": visible,
        "NVIDIA_VISIBLE_DEVICES": visible or "void",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        ENV_GPU_IDS: ",".join(ids),
    }
