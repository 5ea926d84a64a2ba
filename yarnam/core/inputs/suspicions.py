"""Decide which suspected inputs are checked, on which nodes, and what follows from the results.
Pure.

A training process, or the last lines of a failed one, name a file. It is checked on two nodes if
there are two: on another one first, and on the one where the suspicion arose. If both see damage,
the file is corrupt. If neither does, it is not. If only one does, that node reads wrongly, and the
file is not accused. HDFS itself cannot give the bytes: that is the storage's fault, not the data's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

MAX_SUSPICIONS = 100
"""Files checked in one AM attempt: a job that suspects more has another problem."""

MAX_CHECKS = 4
"""Checks per file, including those without a verdict (a missing library, a lost node)."""

WANTED = 2
"""Nodes whose checks settle a suspicion."""

CHECK_LIMIT_S = 300.0
"""The time for one check: at 50 MB/s beside a busy training process, a file of 15 GB."""

MAX_EVIDENCE = 500
"""The most characters of HDFS's text about its DataNodes."""

ANSWER_MARGIN_S = 30.0
"""Time for the answer to arrive after the limit."""


class CheckResult(Protocol):
    """The result of one file's check. ``verdict`` is ``clean``, ``corrupt``, ``storage``, ``gone``
    or ``not checked``."""

    @property
    def verdict(self) -> str: ...

    @property
    def reason(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def format(self) -> str: ...

    @property
    def is_covered(self) -> bool:
        """Whether the format has checksums that cover all of the file."""
        ...

    @property
    def length(self) -> int: ...

    @property
    def mtime_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A check without a verdict."""

    message: str
    verdict: str = "not checked"
    reason: str = "check-failed"
    format: str = ""
    is_covered: bool = False
    length: int = 0
    mtime_ms: int = 0


class Decision(str, Enum):
    """How a suspicion ends."""

    PROVED = "proved"
    CLEARED = "cleared"
    SUSPECTED = "suspected"
    STORAGE = "storage"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Suspect:
    """The first report of a file. ``first`` and ``last`` are record numbers, -1 if unknown."""

    path: str
    reason: str
    node: str
    times: int = 1
    first: int = -1
    last: int = -1


@dataclass(frozen=True, slots=True)
class Assessment:
    node: str
    outcome: CheckResult


@dataclass(frozen=True, slots=True)
class Conclusion:
    """``evidence`` is for a person; ``outcome`` is the one that it rests on, if any."""

    decision: Decision
    reason: str
    evidence: str
    outcome: CheckResult | None = None


@dataclass(frozen=True, slots=True)
class RunningCheck:
    """A check under way."""

    order: int
    node: str
    until_s: float


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One suspected file."""

    suspect: Suspect
    assessments: tuple[Assessment, ...] = ()
    running: tuple[RunningCheck, ...] = ()
    conclusion: Conclusion | None = None

    @property
    def tried(self) -> tuple[str, ...]:
        return tuple(o.node for o in self.assessments) + tuple(one.node for one in self.running)

    @property
    def conclusive(self) -> tuple[Assessment, ...]:
        """The checks that reached a verdict."""
        return tuple(o for o in self.assessments if o.outcome.verdict != "not checked")

    @property
    def state(self) -> str:
        if self.conclusion is not None:
            return self.conclusion.decision.value
        return "checking" if self.running or self.assessments else "waiting"


def choose(suspicion: Suspicion, nodes: Iterable[str]) -> str | None:
    """The node to check the file on next, or ``None`` if no node is needed now."""
    if suspicion.conclusion is not None or len(suspicion.tried) >= MAX_CHECKS:
        return None
    if len(suspicion.conclusive) + len(suspicion.running) >= WANTED:
        return None
    left = [node for node in dict.fromkeys(nodes) if node not in suspicion.tried]
    others = [node for node in left if node != suspicion.suspect.node]
    if not suspicion.tried:
        return next(iter(others or left), None)
    return suspicion.suspect.node if suspicion.suspect.node in left else next(iter(others), None)


def conclude(suspicion: Suspicion, nodes: Iterable[str]) -> Conclusion | None:
    """The conclusion, or ``None`` while a check is outstanding."""
    gone = next((o for o in suspicion.assessments if o.outcome.verdict == "gone"), None)
    if gone is not None:
        return Conclusion(Decision.GONE, "gone", gone.outcome.message, gone.outcome)
    if suspicion.running or choose(suspicion, nodes) is not None:
        return None
    conclusive = suspicion.conclusive
    unread = [o.outcome for o in suspicion.assessments if o.outcome.reason == "unreadable"]
    if not conclusive and unread:
        # Hadoop's clients do not tell the NameNode when every replica is bad, so HDFS does not call
        # the block corrupt; but what nobody can read has not been seen to be wrong.
        return Conclusion(
            Decision.STORAGE, "unreadable", unread[0].message[:MAX_EVIDENCE], unread[0]
        )
    if not conclusive:
        first = next(iter(suspicion.assessments), None)
        why = first.outcome.message if first is not None else "no node could check it"
        return Conclusion(Decision.SUSPECTED, "not-checked", f"{_said(suspicion.suspect)}; {why}")
    if len({(o.outcome.length, o.outcome.mtime_ms) for o in conclusive}) > 1:
        return Conclusion(
            Decision.GONE, "changed", "it was written again meanwhile", conclusive[-1].outcome
        )
    return _by_majority(suspicion.suspect, conclusive)


def _by_majority(suspect: Suspect, conclusive: Sequence[Assessment]) -> Conclusion:
    corrupt = [o for o in conclusive if o.outcome.verdict == "corrupt"]
    storage = [o for o in conclusive if o.outcome.verdict == "storage"]
    clean = [o for o in conclusive if o.outcome.verdict == "clean"]
    if corrupt and not clean:
        first = corrupt[0].outcome
        evidence = f"{first.message}; seen on {_nodes(corrupt)}"
        return Conclusion(Decision.PROVED, first.reason, evidence, first)
    if corrupt:
        evidence = (
            f"damaged as {_nodes(corrupt)} reads it ({corrupt[0].outcome.message}), whole as "
            f"{_nodes(clean)} does: check that node"
        )
        return Conclusion(Decision.SUSPECTED, "read-differently", evidence, clean[0].outcome)
    if storage:
        outcome = storage[0].outcome
        return Conclusion(Decision.STORAGE, outcome.reason, outcome.message, outcome)
    outcome = clean[0].outcome
    looked = f"checked as {outcome.format} on {_nodes(clean)}: no damage found"
    if outcome.is_covered:
        return Conclusion(Decision.CLEARED, "checked", f"{looked}; {_said(suspect)}", outcome)
    evidence = f"{_said(suspect)}; {looked}, but the format has no checksums that cover it all"
    return Conclusion(Decision.SUSPECTED, "not-provable", evidence, outcome)


def _said(suspect: Suspect) -> str:
    which = ""
    if suspect.first >= 0:
        last = f" to {suspect.last}" if suspect.last > suspect.first else ""
        which = f", record {suspect.first}{last}"
    times = f" {suspect.times} times" if suspect.times > 1 else ""
    return f"{suspect.node or 'the job'} reported{times}{which}: {suspect.reason}"


def _nodes(assessments: Iterable[Assessment]) -> str:
    return " and ".join(dict.fromkeys(o.node for o in assessments))


@dataclass(frozen=True, slots=True)
class CheckOrder:
    """A check to run."""

    number: int
    path: str
    node: str


@dataclass(slots=True)
class Suspicions:
    """All suspicions of one AM attempt. Times in seconds, as the caller counts them."""

    suspicions: dict[str, Suspicion] = field(default_factory=dict)
    _number: int = 0

    def add(self, suspect: Suspect) -> bool:
        """``False`` means the file is known already, or there are too many."""
        known = self.suspicions.get(suspect.path)
        if known is not None:
            same = known.suspect
            firsts = [n for n in (same.first, suspect.first) if n >= 0]
            more = replace(
                same,
                times=same.times + suspect.times,
                first=min(firsts, default=-1),
                last=max(same.last, suspect.last),
            )
            self.suspicions[suspect.path] = replace(known, suspect=more)
            return False
        if len(self.suspicions) >= MAX_SUSPICIONS:
            return False
        self.suspicions[suspect.path] = Suspicion(suspect)
        return True

    def next_order(self, node: str, nodes: Sequence[str], now_s: float) -> CheckOrder | None:
        """Order this node's next check. Each node runs one check at a time."""
        if any(
            check.node == node
            for suspicion in self.suspicions.values()
            for check in suspicion.running
        ):
            return None
        for path, suspicion in self.suspicions.items():
            if choose(suspicion, nodes) == node:
                self._number += 1
                until_s = now_s + CHECK_LIMIT_S + ANSWER_MARGIN_S
                running = (*suspicion.running, RunningCheck(self._number, node, until_s))
                self.suspicions[path] = replace(suspicion, running=running)
                return CheckOrder(self._number, path, node)
        return None

    def withdraw(self, number: int) -> None:
        """Take a check back; the same node may get it again."""
        for path, suspicion in self.suspicions.items():
            left = tuple(one for one in suspicion.running if one.order != number)
            if left != suspicion.running:
                self.suspicions[path] = replace(suspicion, running=left)
                return

    def done(self, number: int, outcome: CheckResult) -> None:
        """A check has ended. One that is no longer awaited changes nothing."""
        for path, suspicion in self.suspicions.items():
            for one in suspicion.running:
                if one.order == number:
                    self.suspicions[path] = replace(
                        suspicion,
                        running=tuple(other for other in suspicion.running if other is not one),
                        assessments=(*suspicion.assessments, Assessment(one.node, outcome)),
                    )
                    return

    def settle(self, nodes: Sequence[str], now_s: float) -> list[Suspicion]:
        """Give up checks that take too long or whose node is gone. Returns what is decided now."""
        concluded: list[Suspicion] = []
        for path, suspicion in list(self.suspicions.items()):
            if suspicion.conclusion is not None:
                continue
            for one in suspicion.running:
                if now_s > one.until_s or one.node not in nodes:
                    self.done(one.order, NotChecked(f"{one.node} did not answer"))
            suspicion = self.suspicions[path]
            conclusion = conclude(suspicion, nodes)
            if conclusion is not None:
                self.suspicions[path] = replace(suspicion, conclusion=conclusion)
                concluded.append(self.suspicions[path])
        return concluded

    @property
    def open_count(self) -> int:
        return sum(suspicion.conclusion is None for suspicion in self.suspicions.values())


def named_inputs(lines: Iterable[str], roots: Mapping[str, str]) -> tuple[str, ...]:
    """Files below the inputs that a failed process's last lines name, in order.

    ``roots``: URI or path of each input to the plain path of its directory. A name ends at white
    space or a quote; a file's name with one in it is not found.
    """
    found: dict[str, None] = {}
    for line in lines:
        for written, plain in roots.items():
            at = line.find(f"{written}/")
            while at >= 0:
                rest = line[at + len(written) + 1 :]
                name = rest[: _end_of_name(rest)].rstrip(".,:;)]}")
                if name and not (at and _is_of_name(line[at - 1])):
                    found[f"{plain}/{name}"] = None
                at = line.find(f"{written}/", at + 1)
    return tuple(found)


def _end_of_name(text: str) -> int:
    return next((i for i, c in enumerate(text) if c.isspace() or c in "'\"`<>|"), len(text))


def _is_of_name(char: str) -> bool:
    return char.isalnum() or char in "/-_."
