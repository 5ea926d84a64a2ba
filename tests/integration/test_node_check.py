"""The nodes of a gang are checked before its processes start; a slow one is replaced."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typing_extensions import Self

from tests.integration.fault_world import AGENT, MARKS
from yarnam.core.model.events import AgentRegistered, NodeChecked, TaskStarted

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = MARKS

STOPPED_S, RUNS_S = 0.18, 0.02
"""A tenth of the time is left: as on a node whose CPU quota is nearly used up."""


class Throttle:
    """Stops the agents of one node for most of the time: of that whose agent is seen first."""

    def __init__(self, world: FaultWorld, job: Job) -> None:
        self.node = ""
        self._world, self._job = world, job
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(10)

    def _run(self) -> None:
        pids: list[int] = []
        looked_s = 0.0
        while not self._is_over.is_set():
            if time.monotonic() - looked_s > 0.5 or not pids:
                pids, looked_s = list(self._agents()), time.monotonic()
            self._signal(pids, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            self._signal(pids, signal.SIGCONT)
            time.sleep(RUNS_S)

    def _agents(self) -> Iterator[int]:
        for pid in self._world.pids(self._job, AGENT):
            with suppress(OSError):
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                (node,) = [one[8:].decode() for one in variables if one.startswith(b"NM_HOST=")]
                self.node = self.node or node
                if node == self.node:
                    yield pid

    @staticmethod
    def _signal(pids: list[int], number: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_slow_node_is_replaced_before_anything_starts(world: FaultWorld) -> None:
    job = world.submit(
        "node-check", ["sleep", "3"], worker={"tasks": 3, "gpus": 1}, framework="command",
        placement={"strategy": "spread", "check": "quick"},
        # On a busy machine a good node may be called slow too: then it takes another attempt.
        gang={"hold_timeout": "20s", "attempts": 9},
    )  # fmt: skip
    with Throttle(world, job) as slow:
        verdict = world.end_of(job)
    events = list(job.events())
    answers = [event for event in events if isinstance(event, NodeChecked)]
    for event in answers:
        print(event)
    assert verdict.exit_code == 0
    registered = {e.ask: e for e in events if isinstance(e, AgentRegistered)}
    used = {registered[e.ask].node for e in events if isinstance(e, TaskStarted)}
    assert len(used) == 3
    assert slow.node not in used
    ready_s = [event.at_s for event in registered.values()][2]
    first_s = max(event.at_s for event in answers if event.check == 1) - ready_s
    second_s = max(event.at_s for event in answers if event.check > 1) - ready_s
    print(f"judged {first_s:.1f} s after the gang was complete, all good after {second_s:.1f} s")
    done = world.yarnam("events", job.id).wait()
    assert "node checked: CPU (SHA-256, one core)" in done.out
