"""How busy GPUs are, by NVML: where the node has a driver and the runtime archive has pynvml."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from yarnam.core.model.metrics import GPU_MEMORY_BYTES, GPU_PERCENT, GPU_WATTS

log = logging.getLogger("yarnam.agent")

DRIVER = Path("/dev/nvidiactl")


def load_nvml() -> ModuleType | None:
    """The module ``pynvml``, ready for use; ``None`` if there is no driver or no such module."""
    if not DRIVER.exists():
        return None
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - its errors, and those of whatever driver is there
        log.info("GPUs are not measured: %s", error)
        return None
    return nvml


class GpuUsage:
    """Reads it for the processes of one container. Raises nothing: whatever fails, fails once."""

    def __init__(self, load: Callable[[], ModuleType | None] = load_nvml) -> None:
        self._load = load
        self._nvml: ModuleType | None = None
        self._is_loaded = False

    def read(self, ids: Sequence[str]) -> dict[str, float]:
        """Mean utilization (in percent of the time, by NVML's own window), used memory and, where
        the devices report it, the power that they draw (in watts), by the names of
        ``yarnam.wire.protocol.USAGE_METRICS``; empty if they are not known. ``ids``: as in
        CUDA_VISIBLE_DEVICES, indexes or UUIDs."""
        if not self._is_loaded:
            self._is_loaded = True
            self._nvml = self._load() if ids else None
        nvml = self._nvml
        if nvml is None or not ids:
            return {}
        try:
            devices = [_device(nvml, ident) for ident in ids]
            percent = [nvml.nvmlDeviceGetUtilizationRates(one).gpu for one in devices]
            memory = [nvml.nvmlDeviceGetMemoryInfo(one).used for one in devices]
        except Exception as error:  # noqa: BLE001 - also of a device that has fallen off the bus
            log.warning("GPUs are no longer measured: %s", error)
            self._nvml = None
            return {}
        found = {GPU_PERCENT: sum(percent) / len(percent), GPU_MEMORY_BYTES: float(sum(memory))}
        watts = _watts(nvml, devices)
        return found if watts is None else {**found, GPU_WATTS: watts}


def _watts(nvml: ModuleType, devices: Sequence[object]) -> float | None:
    """The sum; ``None`` if one of them does not report it, as virtual and old ones do not."""
    try:
        return float(sum(nvml.nvmlDeviceGetPowerUsage(one) for one in devices)) / 1000.0
    except Exception:  # noqa: BLE001 - pynvml has a class for each of NVML's errors
        return None


def _device(nvml: ModuleType, ident: str) -> object:
    if ident.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(ident))
    return nvml.nvmlDeviceGetHandleByUUID(ident)
