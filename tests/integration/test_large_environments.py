"""Environments that take longer to unpack on a node than the job may hold an incomplete gang."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS
from yarnam.core.model.events import AgentRegistered, ContainerGranted
from yarnam.core.model.job_status import Phase, Use
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = [*MARKS, pytest.mark.timeout(900)]

FILES = 10_000
"""The NodeManager unpacks each of them and sets its mode: that takes longer than the hold."""

HOLD_S = 3
GANG = {"hold_timeout": f"{HOLD_S}s", "attempts": 2, "backoff": {"base": "200ms", "cap": "1s"}}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """As many files as a usual environment has, of next to no size."""
    path = tmp_path / "environment.zip"
    with zipfile.ZipFile(path, "w") as made:
        python = zipfile.ZipInfo("bin/python")
        python.external_attr = 0o755 << 16
        made.writestr(python, f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        for number in range(FILES):
            made.writestr(f"lib/package{number % 100}/module{number}.py", f"N = {number}\n")
    return path


def test_a_gang_is_held_while_its_environment_is_unpacked(world: FaultWorld, archive: Path) -> None:
    job = world.submit(
        "large-environment",
        ["python", "-c", "print('started')"],
        environment={"archive": str(archive)},
        gang=GANG,
        placement={"strategy": "spread"},
    )
    status = world.until(job, lambda s: "localizing" in s.reason, "localization")
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED
    assert status.phase == Phase.ACQUIRING.value
    assert status.granted == 2
    assert status.deadline_s is not None
    assert status.deadline_s - status.at_s > 1000
    granted = max(event.at_s for event in world.events(job, ContainerGranted))
    ready = max(event.at_s for event in world.events(job, AgentRegistered))
    assert ready - granted > HOLD_S, "the archive is too small for this test"
    assert len(job.status().history) == 1
    books = job.status().ledger
    assert books is not None
    assert books.of(Use.LOCALIZING).wall_s > HOLD_S
