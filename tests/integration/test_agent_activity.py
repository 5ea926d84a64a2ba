"""What the agent reports of processes that do nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent_world import small_job, world
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]

WAITS = """
import time
from yarnam import train
train.report(step=1)
def waits():
    time.sleep(600)
waits()
"""


async def test_a_stopped_process_and_the_stacks_of_all(tmp_path: Path) -> None:
    job = small_job([sys.executable, "-c", WAITS], processes=2)
    async with world(tmp_path) as here:
        container = here.container(job, sdk=True)
        container.start()
        await here.am.until(container.ask, pb.READY)
        await here.am.launch(job, [container.ask])

        def are_up(report: Any) -> bool:
            return all(one.HasField("metrics") for one in report.processes) and bool(
                report.processes
            )

        up = await here.am.mailbox.until(container.ask, are_up)
        os.kill(up.processes[1].pid, signal.SIGSTOP)

        def is_stopped(report: Any) -> bool:
            return len(report.processes) == 2 and report.processes[1].stopped

        await here.am.mailbox.until(container.ask, is_stopped)
        await asyncio.sleep(0.1)
        await here.am.mailbox.order(container.ask, dump=pb.Dump(attempt=1))

        def is_dumped(report: Any) -> bool:
            return all(one.dumped for one in report.processes) and bool(report.processes)

        dumped = await here.am.mailbox.until(container.ask, is_dumped)
        first, second = dumped.processes
        assert first.stack[0] == "waits (<string>:6)"
        assert not first.stopped
        assert second.stopped
        assert b"most recent call first" in container.log()
        stop = pb.Stop(attempt=1, grace_s=5.0, idle_grace_s=0.5)
        await here.am.mailbox.order(container.ask, stop=stop)
        ended = await here.am.until(container.ask, pb.EXITED)
        assert [one.kind for one in ended.processes] == ["stopped", "stopped"]


REPORTS = """
import os, signal
from yarnam import train
for step in range(1, 300):
    train.report(step=step, loss=1.0 / step)
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_the_last_step_of_a_killed_process_counts(tmp_path: Path) -> None:
    """It reports more often than the agent is woken, and has no time to say goodbye."""
    job = small_job([sys.executable, "-c", REPORTS])
    async with world(tmp_path) as here:
        container = here.container(job, sdk=True)
        container.start()
        await here.am.until(container.ask, pb.READY)
        for attempt in (1, 2):
            await here.am.launch(job, [container.ask], attempt)
            ended = await here.am.mailbox.until(
                container.ask,
                lambda report, n=attempt: report.state == pb.EXITED and report.attempt == n,
            )
            (process,) = ended.processes
            assert (process.signal, process.metrics.step) == (signal.SIGKILL, 299)


STEPS = """
import time
from yarnam import train
for step in range(1, 100_000):
    train.report(step=step, loss=1.0 / step)
    if step == 1000:
        with train.pause("evaluation"):
            time.sleep(600)
    time.sleep(0.005)
"""


async def test_polls_take_the_steps_along_and_only_news_come_as_reports(tmp_path: Path) -> None:
    job = small_job([sys.executable, "-c", STEPS])
    async with world(tmp_path) as here:
        container = here.container(job, sdk=True)
        container.start()
        await here.am.until(container.ask, pb.READY)
        await here.am.launch(job, [container.ask])

        def pauses(report: Any) -> bool:
            return any(one.metrics.pause == "evaluation" for one in report.processes)

        await here.am.mailbox.until(container.ask, pauses, limit_s=60)
        polled = here.am.mailbox.polled_steps[container.ask]
        assert len(polled) >= 2
        assert polled == sorted(polled)
        told = [one for one in here.am.mailbox.reports[container.ask] if one.state == pb.STARTED]
        of_their_own = len(told) - len(polled)
        # Started, its first report, and the pause; one of these may come with another.
        assert of_their_own <= 4


NEVER_EXITS = """
import threading
from yarnam import train
train.report(step=1)
threading.Thread(target=threading.Event().wait).start()
import no_such_module
"""


RECORDS = """
import json, os, threading, time
text = "FileNotFoundError: [Errno 2] No such file or directory: '/data/part-7'"
error = {"message": text, "extraInfo": {"timestamp": str(int(time.time()))}}
time.sleep(1)
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump({"message": error}, file)
threading.Event().wait()
"""
"""As torch's ``@record``, in a process whose process group waits in its destructor."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "failure"), [(NEVER_EXITS, "import-error"), (RECORDS, "incorrect-inputs")]
)
async def test_a_process_that_has_failed_and_does_not_exit_is_ended(
    tmp_path: Path, code: str, failure: str
) -> None:
    """A thread of it is no daemon. The finding is that of its exception, not that of a kill."""
    job = small_job([sys.executable, "-c", code])
    async with world(tmp_path) as here:
        container = here.container(job, sdk=True)
        container.start()
        await here.am.until(container.ask, pb.READY)
        await here.am.launch(job, [container.ask])
        ended = await here.am.until(container.ask, pb.EXITED, limit_s=120)
        (process,) = ended.processes
        assert (process.kind, process.code, process.signal) == ("non-zero", 1, 0)
        assert process.finding.failure == failure
        assert "did not exit" in process.last_lines[-1]
