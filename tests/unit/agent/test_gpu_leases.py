from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from yarnam.agent.resources.gpu_devices import GpuDevice
from yarnam.agent.resources.gpu_leases import GpuLease, LeaseHolder, acquire_leases
from yarnam.errors import Unavailable

DEVICES = tuple(GpuDevice(str(number), f"h:1-{number}") for number in range(3))
HOLDER = LeaseHolder("application_1_1", "container_1", "digits", "ann", 42)


def take(directory: Path, count: int, wait_s: float = 0.0) -> tuple[GpuLease, ...]:
    return asyncio.run(acquire_leases(directory, DEVICES, count, HOLDER, wait_s))


def names(leases: tuple[GpuLease, ...]) -> list[str]:
    return [each.device.ident for each in leases]


def test_free_devices_are_leased_lowest_first_and_once(tmp_path: Path) -> None:
    first = take(tmp_path / "leases", 2)
    second = take(tmp_path / "leases", 1)
    assert (names(first), names(second)) == (["0", "1"], ["2"])
    first[0].release()
    again = take(tmp_path / "leases", 1)
    assert names(again) == ["0"]
    for each in (first[1], *second, *again):
        each.release()


def test_too_few_free_devices_leave_none_taken(tmp_path: Path) -> None:
    held = take(tmp_path, 2)
    with pytest.raises(Unavailable, match=r"GPU 0: job 'digits' of ann \(application_1_1, pid 42"):
        take(tmp_path, 2)
    rest = take(tmp_path, 1)
    assert names(rest) == ["2"], "the refused one kept nothing"
    for each in (*held, *rest):
        each.release()


def test_waits_for_a_device_that_comes_free(tmp_path: Path) -> None:
    held = take(tmp_path, 3)

    async def both() -> tuple[GpuLease, ...]:
        waiting = asyncio.create_task(acquire_leases(tmp_path, DEVICES, 1, HOLDER, 5.0))
        await asyncio.sleep(0)  # its first try
        assert not waiting.done()
        held[1].release()
        return await waiting

    got = asyncio.run(both())
    assert names(got) == ["1"]
    for each in (held[0], held[2], *got):
        each.release()


def test_a_killed_holders_lease_is_free(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys, time; from pathlib import Path\n"
        "from tests.unit.agent.test_gpu_leases import take\n"
        f"take(Path({str(tmp_path)!r}), 3); print('held', flush=True); time.sleep(60)"
    )
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=root
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(Unavailable, match="could not be leased"):
            take(tmp_path, 1)
        process.kill()
        process.wait()
    (got,) = take(tmp_path, 1)
    got.release()


def test_files_are_for_all_users_and_say_who_holds(tmp_path: Path) -> None:
    directory = tmp_path / "leases"
    (held,) = take(directory, 1)
    mode = directory.stat().st_mode
    assert stat.S_IMODE(mode) == 0o1777
    path = directory / "h_1-0.lock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    assert json.loads(path.read_text())["job"] == "digits"
    held.release()
    assert path.read_text() == ""


def test_planted_links_are_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("keep me")
    directory = tmp_path / "leases"
    directory.mkdir()
    (directory / "h_1-0.lock").symlink_to(target)
    with pytest.raises(Unavailable, match="symbolic link"):
        take(directory, 1)
    assert target.read_text() == "keep me"
    (tmp_path / "other").symlink_to(directory)
    with pytest.raises(Unavailable, match="not a directory"):
        take(tmp_path / "other", 1)


def test_anything_but_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "h_1-0.lock")
    with pytest.raises(Unavailable, match="not a regular file"):
        take(tmp_path, 1)


def test_more_than_there_are_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="needs 4 GPUs, the node shows 3"):
        take(tmp_path, 4, wait_s=60.0)
