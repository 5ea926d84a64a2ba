"""Failed trainings of other people, 2022 to 2026: what their processes print, and what their public
thread found to be the cause.

Each file is a family; a case names its thread and is labelled by it. The logs are written anew:
lines of libraries as these print them, also where the thread shows only a part of them, all else
made up. Where only the thread knows that a process was killed for want of memory, and nothing in
its output does, the right class is ``killed``. Of the cases in ``unconfirmed.txt`` nobody in the
part of the thread that was read confirms the cause: their labels are read from the error itself.

Half of the cases is held out, by the digest of the thread's address. No rule is made or mended from
a held-out case. Those in ``later`` are of a second collection, after rules had been mended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.fakes import launcher_output
from yarnam.core.failures.evidence_zones import ProcessEvidence
from yarnam.core.failures.first_failure import FailedProcess, in_order_of_cause
from yarnam.core.failures.process_failure import UNKNOWN, container_finding, process_finding
from yarnam.core.failures.shipped_rules import SHIPPED_RULES
from yarnam.core.model.outcomes import Finding, RetryAction

A = RetryAction

HELD_OUT_DIGEST = "dda25379194619e8db53cf7f3b37a9701f8ae98df1fe3829112581314880720b"
"""Of the held-out cases, set before any rule was tried on them."""

LATER_DIGEST = "3208f46c3aa36487b7946e416325fa065ddf2c18f5ddad037445bf5451bcc26e"
"""Of the later cases, set before any rule was tried on them."""

TRANSIENT = frozenset({A.RETRY, A.ELSEWHERE, A.FREE})
"""Actions that start the gang again whatever the job's spec says."""

LAUNCHERS = {
    "torchrun": launcher_output.torchrun,
    "horovodrun": launcher_output.horovodrun,
    "accelerate": launcher_output.accelerate,
    "deepspeed": launcher_output.deepspeed,
    "mpirun": launcher_output.mpirun,
}
PASSES_ON = frozenset({"deepspeed"})
"""Launchers that end with their process's exit code; the others end with 1."""


@dataclass(frozen=True)
class Right:
    """The labels of a case."""

    failure: str
    blame: str
    action: RetryAction
    rank: int


@dataclass(frozen=True)
class Case:
    family: str
    thread: str
    right: Right
    plain: dict[str, Any]

    @property
    def is_confirmed(self) -> bool:
        """Whether the thread establishes the cause."""
        return self.thread not in _unconfirmed()

    @property
    def is_held_out(self) -> bool:
        return int(hashlib.sha256(self.thread.encode()).hexdigest(), 16) % 2 == 1


@dataclass(frozen=True)
class Answer:
    """What the rules make of a case."""

    finding: Finding
    rank: int


@cache
def cases() -> Sequence[Case]:
    """All of the first collection, in the order of their files."""
    return _read("*.yaml")


@cache
def later_cases() -> Sequence[Case]:
    return _read("later/*.yaml")


def _read(pattern: str) -> Sequence[Case]:
    return [
        Case(path.stem, plain["thread"], _right(plain["right"]), plain)
        for path in sorted(Path(__file__).parent.glob(pattern))
        for plain in yaml.safe_load(path.read_text(encoding="utf-8"))
    ]


@cache
def _unconfirmed() -> frozenset[str]:
    text = (Path(__file__).parent / "unconfirmed.txt").read_text(encoding="utf-8")
    return frozenset(text.split())


def _right(plain: dict[str, Any]) -> Right:
    return Right(plain["class"], plain["blame"], RetryAction(plain["action"]), plain["rank"])


def digest(chosen: Sequence[Case]) -> str:
    """The SHA-256 of these cases, labels included."""
    text = json.dumps([case.plain for case in chosen], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def answer(case: Case) -> Answer:
    """What yarnam says of it: of a gang's processes, the first cause."""
    if "yarn" in case.plain:
        found = container_finding(case.plain["yarn"], SHIPPED_RULES) or UNKNOWN
        return Answer(found, case.right.rank)
    own = {**case.plain, "rank": case.right.rank, "after": 0.0}
    failed = [
        FailedProcess(number, one["rank"], 100.0 + one["after"], _finding(one))
        for number, one in enumerate([own, *case.plain.get("others", ())])
    ]
    first = in_order_of_cause(failed)[0]
    assert first.finding is not None
    return Answer(first.finding, first.rank)


def _finding(plain: dict[str, Any]) -> Finding:
    log, signal = plain["log"], plain.get("signal", 0)
    code = 0 if signal else plain.get("code", 1)
    if "launcher" in plain:
        name, exitcode = plain["launcher"].split()
        log += LAUNCHERS[name](int(exitcode))
        code = int(exitcode) % 256 if name in PASSES_ON else 1
    return process_finding(ProcessEvidence(code, signal, tuple(log.splitlines())), SHIPPED_RULES)


def is_right(case: Case, given: Answer) -> bool:
    """Class and blame, as the aim counts them."""
    found = given.finding
    return (found.failure.value, found.blame.value) == (case.right.failure, case.right.blame)


def is_found(case: Case, given: Answer) -> bool:
    """All four labels. Actions that do not retry without the job's leave are one."""
    is_action = case.right.action is given.finding.action or not (
        {case.right.action, given.finding.action} & TRANSIENT
    )
    return is_right(case, given) and is_action and given.rank == case.right.rank


def is_called_permanent(case: Case, given: Answer) -> bool:
    """A failure that may pass, and is not retried."""
    return case.right.action in TRANSIENT and given.finding.action not in TRANSIENT


def is_strike_for_a_mistake(case: Case, given: Answer) -> bool:
    """A user's mistake that counts against the node."""
    return case.right.blame == "user" and given.finding.action is A.ELSEWHERE
