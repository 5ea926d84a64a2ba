from __future__ import annotations

from pathlib import Path

import pytest

from yarnam.agent.launch.launch_plan import visible_gpus
from yarnam.agent.resources.gpu_devices import (
    GpuDevice,
    find_gpu_devices,
    gpu_environment,
    model_of,
    parse_gpu_devices,
)
from yarnam.core.model.resources import split_gpus
from yarnam.errors import Unavailable


def test_simulated_devices_belong_to_their_node_manager() -> None:
    assert find_gpu_devices("sim:0,1", "h:1") == (GpuDevice("0", "h:1-0"), GpuDevice("1", "h:1-1"))
    assert find_gpu_devices("sim:0", "h:2")[0].lock != find_gpu_devices("sim:0", "h:1")[0].lock


def test_real_devices_belong_to_the_machine() -> None:
    assert find_gpu_devices("0,3", "h:1") == find_gpu_devices("0,3", "h:2")
    assert [device.ident for device in find_gpu_devices(" 0 , 3", "h:1")] == ["0", "3"]


def test_nvidia_smi_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, GPU-aa, NVIDIA A100, 80GB'\necho '1, GPU-bb, NVIDIA T4'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_gpu_devices("", "h:1") == (
        GpuDevice("0", "gpu-GPU-aa", "NVIDIA A100, 80GB"),
        GpuDevice("1", "gpu-GPU-bb", "NVIDIA T4"),
    )
    tool.write_text("#!/bin/sh\necho 'driver mismatch' >&2\nexit 9\n")
    with pytest.raises(Unavailable, match=r"nvidia-smi failed \(9\): driver mismatch"):
        find_gpu_devices("", "h:1")


def test_the_model_of_a_task_is_known_when_it_is_one() -> None:
    same = find_gpu_devices("sim:0,1", "h:1", "A100")
    assert model_of(same) == "A100"
    assert model_of([*same, GpuDevice("2", "x", "T4")]) == ""
    assert model_of([*same, GpuDevice("2", "x")]) == ""
    assert model_of([]) == ""


def test_counted_devices_where_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert [device.ident for device in find_gpu_devices("", "h:1")][:3] == ["0", "1", "2"]


def test_lines_that_are_no_device_are_ignored() -> None:
    assert parse_gpu_devices("No devices were found\n\n0, GPU-x\n") == (
        GpuDevice("0", "gpu-GPU-x"),
    )


@pytest.mark.parametrize(
    ("ids", "processes", "expected"),
    [
        ("0123", 4, ["0", "1", "2", "3"]),
        ("0123", 1, ["0123"]),
        ("0123", 2, ["01", "23"]),
        ("01234", 2, ["012", "34"]),
        ("0", 3, ["0", "", ""]),
        ("", 2, ["", ""]),
    ],
)
def test_shares_are_contiguous_and_complete(ids: str, processes: int, expected: list[str]) -> None:
    assert ["".join(each) for each in split_gpus(list(ids), processes)] == expected


def test_a_task_without_gpus_sees_none() -> None:
    env = gpu_environment(())
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert gpu_environment(("2", "3"))["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_a_process_may_see_more_than_its_own() -> None:
    env = gpu_environment(("3",), ("2", "3"))
    assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"] == "2,3"
    assert env["YARNAM_GPU_IDS"] == "3"


@pytest.mark.parametrize(
    ("framework", "ids", "processes", "expected"),
    [
        ("pytorch", "2301", 4, "2301"),  # cuda:LOCAL_RANK is the process's own, in any order
        ("horovod", "57", 2, "57"),
        ("pytorch", "0123", 2, ""),  # two each: as cuda:0 and cuda:1
        ("pytorch", "0", 2, ""),
        ("pytorch", "", 2, ""),
        ("jax", "01", 2, ""),  # JAX takes all that it sees
        ("torchrun", "01", 1, ""),
    ],
)
def test_who_sees_all_gpus_of_a_task(
    framework: str, ids: str, processes: int, expected: str
) -> None:
    assert "".join(visible_gpus(framework, split_gpus(list(ids), processes))) == expected
