"""How busy GPUs are, by NVML: no GPU is needed for what this is about."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from yarnam.agent.resources import gpu_usage
from yarnam.agent.resources.gpu_usage import GpuUsage, load_nvml


class Nvml:
    """As ``pynvml``: devices by index, and one by its UUID."""

    def __init__(self) -> None:
        self.fails = False
        self.calls = 0

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        self.calls += 1
        if self.fails:
            raise RuntimeError("GPU is lost")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        assert uuid == "GPU-7f"
        return 3

    def nvmlDeviceGetUtilizationRates(self, device: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=10 * device)

    def nvmlDeviceGetMemoryInfo(self, device: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=1000 + device)

    def nvmlDeviceGetPowerUsage(self, device: int) -> int:  # noqa: N802
        """Milliwatts."""
        return 100_000 * device


def test_devices_are_added_up_and_their_utilization_is_the_mean() -> None:
    usage = GpuUsage(Nvml)
    assert usage.read(["1", "GPU-7f"]) == {
        "gpu_percent": 20.0,
        "gpu_memory_bytes": 2004.0,
        "gpu_watts": 400.0,
    }


def test_devices_that_do_not_report_their_power_are_measured_without_it() -> None:
    class Virtual(Nvml):
        def nvmlDeviceGetPowerUsage(self, device: int) -> int:  # noqa: N802
            raise RuntimeError("Not Supported")

    usage = GpuUsage(Virtual)
    for _ in range(2):
        assert usage.read(["1"]) == {"gpu_percent": 10.0, "gpu_memory_bytes": 1001.0}


def test_without_gpus_nothing_is_loaded_and_without_nvml_nothing_is_known() -> None:
    def refuse() -> Any:
        raise AssertionError("loaded")

    assert GpuUsage(refuse).read([]) == {}
    assert GpuUsage(lambda: None).read(["0"]) == {}


def test_a_device_that_fails_is_asked_no_more() -> None:
    nvml = Nvml()
    usage = GpuUsage(lambda: nvml)
    nvml.fails = True
    assert usage.read(["0"]) == usage.read(["0"]) == {}
    assert nvml.calls == 1


def test_a_node_without_driver_or_module_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_nvml() is None or gpu_usage.DRIVER.exists()
    monkeypatch.setattr(gpu_usage, "DRIVER", gpu_usage.Path("/"))
    monkeypatch.setattr(
        gpu_usage.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name))
    )
    assert load_nvml() is None
