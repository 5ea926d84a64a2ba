"""For each class of failure a job that really fails: class, retries and end as they should be.

What can pass goes on from its checkpoint, with the losses of an undisturbed run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS
from tests.integration.row_training import (
    FAULT_STEP,
    ROWS,
    SCRIPT,
    began_at,
    losses_of,
    references,
)
from yarnam.core.model.outcomes import FailureClass, RetryAction

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.long]

AT_ONCE = 4
F = FailureClass
A = RetryAction

STEPS, RANKS = 8, 2


@dataclass(frozen=True)
class Case:
    """What starting it again cannot help: it makes one attempt."""

    code: str
    failure: FailureClass
    action: RetryAction


CASES = {
    "segfault": Case("import os\nos.kill(os.getpid(), 11)", F.INVALID_MEMORY_ACCESS, A.ALLOWED),
    "abort": Case("import os\nos.abort()", F.CORE_DUMP, A.ALLOWED),
    "import": Case("import no_such_module", F.IMPORT_ERROR, A.NEVER),
    "syntax": Case("def f(:", F.SYNTAX_ERROR, A.NEVER),
    "missing-input": Case("open('/data/no-such-file')", F.INCORRECT_INPUTS, A.NEVER),
    "checkpoint-permission": Case("open('/sys/kernel/notes', 'wb')", F.PERMISSION_ERROR, A.NEVER),
    "memory-limit": Case(
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\n"
        "bytearray(1 << 30)",
        F.CPU_OUT_OF_MEMORY, A.MORE_MEMORY,
    ),
    "wrong-library": Case(
        "import ctypes\nctypes.CDLL('libno-such.so.3')", F.LIBRARY_NOT_LOADED, A.NEVER
    ),
    "diverged": Case("raise FloatingPointError('loss is NaN at step 7')", F.DIVERGED, A.NEVER),
    "permanent": Case("raise SystemExit(194)", F.DECLARED_PERMANENT, A.NEVER),
}  # fmt: skip

# Those that can pass.
PASSING = {
    "peer-killed": ("import os\nos.kill(os.getpid(), 9)", F.KILLED, A.RETRY),
    "transient": ("import os\nos._exit(193)", F.DECLARED_TRANSIENT, A.FREE),
    "port-in-use": (
        "import socket as s; a = s.create_server(('', 0)); s.create_server(a.getsockname())",
        F.PORT_IN_USE,
        A.RETRY,
    ),
    "full-disk": ("with open('/dev/full', 'w') as log: log.write('x')", F.DISK_FULL, A.ELSEWHERE),
}
"""What the last rank does in the first attempt, after its checkpoint of step 5."""


Submit = Callable[[str], "Job"]


def run_all(names: Iterable[str], submit: Submit) -> Mapping[str, Job]:
    """All of them to their end, some at a time."""

    def run(name: str) -> Job:
        job = submit(name)
        job.wait(500)
        return job

    names = list(names)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(run, names), strict=True))


@pytest.fixture(scope="module")
def ended(world: FaultWorld) -> Mapping[str, Job]:
    def submit(name: str) -> Job:
        command = ["python3", "-c", CASES[name].code]
        return world.submit(f"class-{name}", command, worker={"tasks": 1})

    return run_all(CASES, submit)


@pytest.mark.timeout(1500)  # the first one waits for all of them
@pytest.mark.parametrize("name", CASES)
def test_what_cannot_pass_ends_after_one_attempt(
    world: FaultWorld, ended: Mapping[str, Job], name: str
) -> None:
    status = ended[name].status()
    first = status.history[0].cause
    assert first is not None, status.history
    case = CASES[name]
    assert (first.finding.failure, first.finding.action) == (case.failure, case.action), first
    assert len(status.history) == 1, status.history
    assert status.verdict is not None
    assert status.verdict.exit_code != 0, status.verdict
    world.assert_cleared(ended[name])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the ranks write their losses, whoever they run as."""
    folder = tmp_path_factory.mktemp("results")
    folder.chmod(0o777)
    return folder


@pytest.fixture(scope="module")
def passed(world: FaultWorld, results: Path) -> Mapping[str, Job]:
    code = results / "code"
    code.mkdir()
    (code / "train.py").write_text(SCRIPT)

    def submit(name: str) -> Job:
        arguments = [str(ROWS), str(STEPS), str(results / name), PASSING[name][0]]
        return world.submit(
            f"class-{name}", ["python3", "code/train.py", *arguments], code=str(code),
            worker={"tasks": RANKS}, checkpoint={"directory": f"/tmp/class-{name}-{os.getpid()}"},
            gang={"backoff": {"base": "200ms", "cap": "1s"}},
        )  # fmt: skip

    return run_all(PASSING, submit)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", PASSING)
def test_what_can_pass_goes_on_from_its_checkpoint(
    world: FaultWorld, passed: Mapping[str, Job], results: Path, name: str
) -> None:
    status = passed[name].status()
    first = status.history[0].cause
    assert first is not None, status.history
    assert (first.finding.failure, first.finding.action) == PASSING[name][1:], first
    assert first.rank == RANKS - 1
    assert len(status.history) == 2, status.history
    assert status.verdict is not None
    assert status.verdict.exit_code == 0, status.verdict
    assert began_at(results / name, 2, RANKS) == [FAULT_STEP] * RANKS
    assert losses_of(results / name, RANKS) == references(STEPS, RANKS), "an undisturbed run's"
    world.assert_cleared(passed[name])
