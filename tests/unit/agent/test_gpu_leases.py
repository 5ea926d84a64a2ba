from __future__ import annotations

import asyncio
import os
import pwd
import re
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from yarnam.agent.resources.gpu_devices import GpuDevice
from yarnam.agent.resources.gpu_leases import (
    DevicesTaken,
    GpuLease,
    LeaseHolder,
    acquire_leases,
    lease_name,
)
from yarnam.errors import Unavailable

HOLDER = LeaseHolder("application_1_1", "digits", "ann")
ME = pwd.getpwuid(os.getuid()).pw_name
NOBODY = 65534


@pytest.fixture
def devices() -> tuple[GpuDevice, ...]:
    """Of this test alone: the names are the machine's."""
    key = f"{os.getpid()}-{time.monotonic_ns()}"
    return tuple(GpuDevice(str(number), f"{key}-{number}") for number in range(3))


def take(
    devices: tuple[GpuDevice, ...],
    count: int,
    holder: LeaseHolder = HOLDER,
) -> tuple[GpuLease, ...]:
    return asyncio.run(acquire_leases(devices, count, holder, 0.0))


def names(leases: tuple[GpuLease, ...]) -> list[str]:
    return [each.device.ident for each in leases]


def release(*leases: GpuLease) -> None:
    for each in leases:
        each.release()


def refusal(
    devices: tuple[GpuDevice, ...],
    holder: LeaseHolder = HOLDER,
    count: int = 1,
    meanwhile: Callable[[], None] = lambda: None,
) -> str:
    """What is said to one who comes second, while the first one's agent lives."""

    async def both() -> str:
        held = await acquire_leases(devices, len(devices), holder, 0.0)
        meanwhile()
        try:
            with pytest.raises(DevicesTaken) as caught:
                await acquire_leases(devices, count, HOLDER, 0.0)
        finally:
            release(*held)
        return str(caught.value)

    return asyncio.run(both())


def test_free_devices_are_leased_lowest_first_and_once(devices: tuple[GpuDevice, ...]) -> None:
    first = take(devices, 2)
    second = take(devices, 1)
    assert (names(first), names(second)) == (["0", "1"], ["2"])
    first[0].release()
    again = take(devices, 1)
    assert names(again) == ["0"]
    release(first[1], *second, *again)


def test_too_few_free_devices_leave_none_taken(devices: tuple[GpuDevice, ...]) -> None:
    held = take(devices, 2)
    with pytest.raises(DevicesTaken, match="2 of the node's 3 GPUs could not be leased"):
        take(devices, 2)
    rest = take(devices, 1)
    assert names(rest) == ["2"], "the refused one kept nothing"
    release(*held, *rest)


def test_waits_for_a_device_that_comes_free(devices: tuple[GpuDevice, ...]) -> None:
    held = take(devices, 3)

    async def both() -> tuple[GpuLease, ...]:
        waiting = asyncio.create_task(acquire_leases(devices, 1, HOLDER, 5.0))
        await asyncio.sleep(0)  # its first try
        assert not waiting.done()
        held[1].release()
        return await waiting

    got = asyncio.run(both())
    assert names(got) == ["1"]
    release(held[0], held[2], *got)


def test_the_holder_is_named_by_the_kernel_and_its_job_by_itself(
    devices: tuple[GpuDevice, ...],
) -> None:
    text = refusal(devices)
    said = f"process {os.getpid()} of user {ME}, by its own word job 'digits' of 'ann' "
    assert f"GPU 0: {said}(application_1_1); GPU 1: {said}" in text


@pytest.mark.parametrize(
    "holder",
    [
        LeaseHolder("application_1_1", "\x1b]52;c;ZXZpbA==\x07\n", "\x1b[2J"),
        LeaseHolder("\x1b[31m", "digits", "ann"),
        LeaseHolder("application_1_1", "x" * 5000, "ann"),
    ],
)
def test_what_a_holder_says_writes_nothing_to_a_terminal(
    devices: tuple[GpuDevice, ...], holder: LeaseHolder
) -> None:
    text = refusal(devices, holder)
    assert f"process {os.getpid()} of user {ME}" in text
    assert text.isprintable()
    assert len(text) < 1000


def test_a_holder_whose_agent_is_gone_is_named_all_the_same(
    devices: tuple[GpuDevice, ...],
) -> None:
    held = take(devices, 3)  # its loop has ended: nobody answers
    with pytest.raises(DevicesTaken, match=f"GPU 2: process {os.getpid()} of user {ME}$"):
        take(devices, 1)
    release(*held)


def test_a_holder_that_is_asked_all_the_time_goes_on(devices: tuple[GpuDevice, ...]) -> None:
    """More askers than its queue takes, none of which reads."""
    askers: list[socket.socket] = []

    async def held_and_asked() -> None:
        (held,) = await acquire_leases(devices[:1], 1, HOLDER, 0.0)
        for _ in range(300):
            asker = socket.socket(socket.AF_UNIX)
            asker.setblocking(False)
            asker.connect(lease_name(devices[0]))
            askers.append(asker)
            await asyncio.sleep(0)
        held.release()

    try:
        asyncio.run(asyncio.wait_for(held_and_asked(), 30))
    finally:
        for asker in askers:
            asker.close()
    release(*take(devices[:1], 1))


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user")
def test_another_user_neither_frees_nor_takes_a_lease(devices: tuple[GpuDevice, ...]) -> None:
    (held,) = take(devices[:1], 1)
    with pytest.raises(DevicesTaken):
        take(devices[:1], 1)  # imports what the other user may not be able to read
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside other tests' threads
        pid = os.fork()
    if pid == 0:
        try:
            os.setuid(NOBODY)
            take(devices[:1], 1)
        except DevicesTaken:
            os._exit(3)
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    held.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user")
def test_another_user_who_squats_a_name_is_named(devices: tuple[GpuDevice, ...]) -> None:
    """He can: a free name is anybody's. It is told who he is, whatever he says."""
    ready, written = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as squatter:
                squatter.bind(lease_name(devices[0]))
                squatter.listen()
                os.write(written, b"x")
                asker, _ = squatter.accept()
                asker.send(b"[" * 1900)
                time.sleep(60)
        finally:
            os._exit(0)
    try:
        assert os.read(ready, 1) == b"x"
        user = pwd.getpwuid(NOBODY).pw_name
        with pytest.raises(DevicesTaken, match=rf"holders: GPU 0: process {pid} of user {user}$"):
            take(devices[:1], 1)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(written)


def test_a_killed_holders_lease_is_free(devices: tuple[GpuDevice, ...]) -> None:
    code = (
        "import time; from yarnam.agent.resources.gpu_devices import GpuDevice\n"
        "from tests.unit.agent.test_gpu_leases import take\n"
        f"held = take({devices!r}, 3); print('held', flush=True); time.sleep(60)"
    )
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=root
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(Unavailable, match="could not be leased"):
            take(devices, 1)
        process.kill()
        process.wait()
    release(*take(devices, 1))


def test_a_lease_lives_as_long_as_one_copy_of_its_socket(devices: tuple[GpuDevice, ...]) -> None:
    """The keeper has one: the devices are free when the processes are gone."""
    (held,) = take(devices[:1], 1)
    copy = os.dup(held.sock.fileno())
    held.release()
    with pytest.raises(DevicesTaken):
        take(devices[:1], 1)
    os.close(copy)
    release(*take(devices[:1], 1))


def test_long_names_are_shortened_and_stay_apart() -> None:
    names = [lease_name(GpuDevice("0", "n" * 200 + f":8041-{gpu}")) for gpu in range(2)]
    assert names[0] != names[1]
    assert max(map(len, names)) <= 107
    assert re.fullmatch(rb"\0yarnam-lease/[0-9a-f]{64}", names[0])
    assert lease_name(GpuDevice("0", "gpu-GPU-1")) == b"\0yarnam-lease/gpu-GPU-1"


def test_more_than_there_are_is_refused_at_once(devices: tuple[GpuDevice, ...]) -> None:
    with pytest.raises(Unavailable, match="needs 4 GPUs, the node shows 3"):
        asyncio.run(acquire_leases(devices, 4, HOLDER, 60.0))
