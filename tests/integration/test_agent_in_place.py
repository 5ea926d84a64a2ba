"""Agents of an in-place elastic gang: the first passes on its members to the program beside it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.agent_world import world
from tests.unit.frameworks.contract import job as job_of
from yarnam.core.model.job_spec import EnvironmentSpec
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio, pytest.mark.timeout(300)]

FIRST, LOST, NEW = "a1.worker.0", "a1.worker.1", "a1.worker.2"
PROGRAM = textwrap.dedent(
    """\
    import os, pathlib, sys, time, urllib.request

    env, place = os.environ, pathlib.Path(sys.argv[1])
    mine = place / env["HOROVOD_HOSTNAME"]
    (place / "draft").mkdir(exist_ok=True)

    def note(text):
        draft = place / "draft" / mine.name
        draft.write_text(text)
        draft.replace(mine)

    note(f"{env['HOROVOD_RANK']} of {env['HOROVOD_SIZE']}")
    while not (place / "again").exists():
        time.sleep(0.05)
    if env["HOROVOD_HOSTNAME"] == "a1.worker.0":
        at = f"{env['HOROVOD_GLOO_RENDEZVOUS_ADDR']}:{env['HOROVOD_GLOO_RENDEZVOUS_PORT']}"
        url = f"http://{at}/rank_and_size/a1.worker.0:0"
        ranks = ""
        while not ranks.startswith("0,2,"):  # the new one may not have asked yet
            ranks = urllib.request.urlopen(url, timeout=60).read().decode()
        note(ranks)
    while not (place / "end").exists():
        time.sleep(0.05)
    """
)
"""Says its rank as it starts, and asks for another one as Horovod does in a reset."""


async def test_horovods_processes_go_on_when_one_is_lost_and_another_joins(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    roles = {"worker": {"tasks": {"min": 1, "max": 2}, "vcores": 1, "memory": "256MiB"}}
    job = job_of("horovod", roles=roles, elastic={"restart": False})
    command = (sys.executable, str(program), str(place))
    job = replace(
        job,
        roles=tuple(replace(role, command=command) for role in job.roles),
        environment=EnvironmentSpec(sys.executable),
    )

    async with world(tmp_path) as here:
        containers = {ask: here.container(job, ask=ask).start() for ask in (FIRST, LOST, NEW)}
        for ask in containers:
            await here.am.until(ask, pb.READY, limit_s=120)
        await here.am.launch(job, (FIRST, LOST))
        for ask in (FIRST, LOST):
            await here.am.until(ask, pb.STARTED, limit_s=120)
        await noted(place, FIRST, "0 of 2")
        await noted(place, LOST, "1 of 2")
        before = containers[FIRST].user_processes()

        lost = containers[LOST].process
        assert lost is not None
        os.kill(lost.pid, signal.SIGKILL)
        await here.am.launch(job, (FIRST, NEW))
        (place / "again").touch()
        await noted(place, NEW, "1 of 2")
        await noted(place, FIRST, "0,2,0,1,0,2")
        assert containers[FIRST].user_processes() == before

        (place / "end").touch()
        for ask in (FIRST, NEW):
            report = await here.am.until(ask, pb.EXITED, limit_s=60)
            assert report.processes[0].kind == "ok"


async def noted(place: Path, ask: str, text: str) -> None:
    for _ in range(1200):
        if (place / ask).exists() and (place / ask).read_text() == text:
            return
        await asyncio.sleep(0.05)
    raise AssertionError([(one.name, one.read_text()) for one in place.iterdir() if one.is_file()])
