"""For each class of failure a job that really fails: class, retries and end as they should be."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import MARKS
from yarnam.core.model.outcomes import FailureClass

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.long]

AT_ONCE = 4
F = FailureClass

ONCE = "import os, sys, time\nif os.environ['YARNAM_ATTEMPT'] != '1': sys.exit()\n"
"""What follows happens in the first attempt alone."""


@dataclass(frozen=True)
class Case:
    """``attempts``: how many it makes; it succeeds where that is more than one."""

    code: str
    failure: FailureClass
    attempts: int = 1
    changes: Mapping[str, Any] = field(default_factory=dict)


CASES = {
    "segfault": Case("import os\nos.kill(os.getpid(), 11)", F.INVALID_MEMORY_ACCESS),
    "abort": Case("import os\nos.abort()", F.CORE_DUMP),
    "import": Case("import no_such_module", F.IMPORT_ERROR),
    "syntax": Case("def f(:", F.SYNTAX_ERROR),
    "missing-input": Case("open('/data/no-such-file')", F.INCORRECT_INPUTS),
    "checkpoint-permission": Case("open('/sys/kernel/notes', 'wb')", F.PERMISSION_ERROR),
    "memory-limit": Case(
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\n"
        "bytearray(1 << 30)",
        F.CPU_OUT_OF_MEMORY,
    ),
    "wrong-library": Case(
        "import ctypes\nctypes.CDLL('libno-such.so.3')", F.LIBRARY_NOT_LOADED
    ),
    "diverged": Case("raise FloatingPointError('loss is NaN at step 7')", F.DIVERGED),
    "permanent": Case("raise SystemExit(194)", F.DECLARED_PERMANENT),
    # Those that can pass.
    "peer-killed": Case(
        ONCE + "if os.environ['YARNAM_RANK'] == '1': os.kill(os.getpid(), 9)\ntime.sleep(600)",
        F.KILLED, 2, {"worker": {"tasks": 2}},
    ),
    "transient": Case(ONCE + "sys.exit(193)", F.DECLARED_TRANSIENT, 2),
    "port-in-use": Case(
        ONCE + "import socket\nheld = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_server(held.getsockname())",
        F.PORT_IN_USE, 2,
    ),
    "full-disk": Case(
        ONCE + "with open('/dev/full', 'w') as log: log.write('x')", F.DISK_FULL, 2
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def ended(world: FaultWorld) -> Mapping[str, Job]:
    """All of them, some at a time."""

    def run(name: str) -> Job:
        case = CASES[name]
        worker = {"tasks": 1, **case.changes.get("worker", {})}
        job = world.submit(
            f"class-{name}", ["python3", "-c", case.code], worker=worker,
            gang={"backoff": {"base": "200ms", "cap": "1s"}},
        )  # fmt: skip
        job.wait(200)
        return job

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(CASES, pool.map(run, CASES), strict=True))


@pytest.mark.timeout(600)  # the first one waits for all of them
@pytest.mark.parametrize("name", CASES)
def test_its_class_decides_what_becomes_of_it(
    world: FaultWorld, ended: Mapping[str, Job], name: str
) -> None:
    case, status = CASES[name], ended[name].status()
    first = status.history[0].cause
    assert first is not None, status.history
    assert first.finding.failure is case.failure, first
    assert len(status.history) == case.attempts, status.history
    assert status.verdict is not None
    assert (status.verdict.exit_code == 0) is (case.attempts > 1), status.verdict
    world.assert_cleared(ended[name])
