"""A script under the real torchrun, without ``@record``, one of whose two ranks fails: the cause is
the script's, not torchrun's."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS, QUICK
from tests.integration.framework_venvs import framework_python
from yarnam.core.model.outcomes import FailureClass, RetryAction
from yarnam.errors import Blame

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.frameworks, pytest.mark.timeout(2500)]

AT_ONCE = 2
"""Four processes import torch at a time."""
JOB_S = 900
FAILING_RANK = 1
F, A = FailureClass, RetryAction

SCRIPT = """\
import argparse, os, signal
import torch
import torch.distributed as dist

def fail(how):
    if how == "raise":
        raise RuntimeError("bad label 17")
    if how == "module":
        import tokens_fast
    if how == "exit-137":
        os._exit(137)
    if how == "argument":
        parser = argparse.ArgumentParser(prog="fit.py")
        parser.add_argument("--epochs", type=int)
        parser.parse_args(["--epocs", "3"])
    os.kill(os.getpid(), getattr(signal, how))

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1 and os.environ["YARNAM_ATTEMPT"] == "1":
    fail(os.environ["HOW"])
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Case:
    """``line`` is part of the headline; ``attempts``: of the job, with one restart to spend."""

    failure: FailureClass
    action: RetryAction
    blame: Blame
    line: str
    attempts: int = 1


CASES = {
    "raise": Case(F.TRACEBACK, A.ALLOWED, Blame.USER, "RuntimeError: bad label 17"),
    "module": Case(
        F.IMPORT_ERROR, A.NEVER, Blame.USER, "ModuleNotFoundError: No module named 'tokens_fast'"
    ),
    "argument": Case(
        F.SEMANTIC_ERROR, A.NEVER, Blame.USER, "fit.py: error: unrecognized arguments: --epocs 3"
    ),
    "SIGSEGV": Case(F.INVALID_MEMORY_ACCESS, A.ALLOWED, Blame.USER, "exitcode  : -11 (pid: "),
    "SIGKILL": Case(F.KILLED, A.RETRY, Blame.INFRA, "exitcode  : -9 (pid: ", attempts=2),
    "exit-137": Case(F.KILLED, A.RETRY, Blame.INFRA, "exitcode  : 137 (pid: ", attempts=2),
}


@pytest.fixture(scope="module")
def ended(world: FaultWorld, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Job]:
    """The jobs of all cases at their end."""
    code: Path = tmp_path_factory.mktemp("code")
    (code / "fit.py").write_text(SCRIPT)
    python = str(framework_python("torch"))

    def run(how: str) -> Job:
        job = world.submit(
            f"torchrun-{how.lower()}", ["python3", "-m", "torch.distributed.run", "code/fit.py"],
            framework="torchrun", code=str(code), environment={"python": python},
            env={"HOW": how}, worker={"tasks": 2, "memory": "1GiB"},
            retry={"max_restarts": 1}, gang={"backoff": QUICK},
        )  # fmt: skip
        job.wait(JOB_S)
        return job

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(CASES, pool.map(run, CASES), strict=True))


@pytest.mark.parametrize("how", CASES)
def test_the_cause_is_that_of_the_rank_that_failed(
    world: FaultWorld, ended: Mapping[str, Job], how: str
) -> None:
    case, status = CASES[how], ended[how].status()
    first = status.history[0].cause
    assert first is not None, status.history
    found = first.finding
    assert (found.failure, found.action, found.blame) == (case.failure, case.action, case.blame), (
        first
    )
    assert first.rank == FAILING_RANK, first
    assert case.line in found.line, first
    assert len(status.history) == case.attempts, status.history
    assert status.verdict is not None
    assert (status.verdict.exit_code == 0) is (case.attempts > 1), status.verdict
    if case.attempts == 1:
        assert found.line in status.verdict.message, status.verdict
    world.assert_cleared(ended[how])
