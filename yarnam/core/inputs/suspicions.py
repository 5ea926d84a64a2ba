"""Which suspected inputs are checked, on which nodes, and what follows from the results. Pure.

A training process, or the last lines of a failed one, name a file. It is checked on two nodes
where there are two: on another one first, and on the one where the suspicion arose. Both see
damage: the file is corrupt. Neither does: it is not. One alone does: that node reads wrongly, and
the file is accused by nobody. HDFS itself cannot give the bytes: that is the storage's fault, not
the data's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

MAX_CASES = 100
"""Files checked in one AM attempt: a job that suspects more has another problem."""

MAX_CHECKS = 4
"""At one file, those included that came to nothing (a missing library, a node that went away)."""

WANTED = 2
"""Nodes whose checks settle a case."""

CHECK_LIMIT_S = 300.0
"""For one check: at 50 MB/s beside a busy training process, a file of 15 GB."""

MAX_EVIDENCE = 500
"""Characters of what HDFS says of its DataNodes."""

ANSWER_MARGIN_S = 30.0
"""Beyond it, for the answer to come."""


class CheckResult(Protocol):
    """What a check of one file found. ``verdict`` is ``clean``, ``corrupt``, ``storage``, ``gone``
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
    """A check that came to nothing."""

    message: str
    verdict: str = "not checked"
    reason: str = "check-failed"
    format: str = ""
    is_covered: bool = False
    length: int = 0
    mtime_ms: int = 0


class Ruling(str, Enum):
    """What a case came to."""

    PROVED = "proved"
    CLEARED = "cleared"
    SUSPECTED = "suspected"
    STORAGE = "storage"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Suspect:
    """What was said of a file first. ``first`` and ``last``: records, -1: not known."""

    path: str
    reason: str
    node: str
    times: int = 1
    first: int = -1
    last: int = -1


@dataclass(frozen=True, slots=True)
class Opinion:
    node: str
    outcome: CheckResult


@dataclass(frozen=True, slots=True)
class Ruled:
    """``evidence`` is for a person; ``outcome`` is the one that it rests on, if any."""

    ruling: Ruling
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
class Case:
    """One suspected file."""

    suspect: Suspect
    opinions: tuple[Opinion, ...] = ()
    running: tuple[RunningCheck, ...] = ()
    ruled: Ruled | None = None

    @property
    def tried(self) -> tuple[str, ...]:
        return tuple(o.node for o in self.opinions) + tuple(one.node for one in self.running)

    @property
    def telling(self) -> tuple[Opinion, ...]:
        """Those that came to something."""
        return tuple(o for o in self.opinions if o.outcome.verdict != "not checked")

    @property
    def state(self) -> str:
        """For people."""
        if self.ruled is not None:
            return self.ruled.ruling.value
        return "checking" if self.running or self.opinions else "waiting"


def choose(case: Case, nodes: Iterable[str]) -> str | None:
    """The node to check next; ``None`` means none, now."""
    if case.ruled is not None or len(case.tried) >= MAX_CHECKS:
        return None
    if len(case.telling) + len(case.running) >= WANTED:
        return None
    left = [node for node in dict.fromkeys(nodes) if node not in case.tried]
    others = [node for node in left if node != case.suspect.node]
    if not case.tried:
        return next(iter(others or left), None)
    return case.suspect.node if case.suspect.node in left else next(iter(others), None)


def rule(case: Case, nodes: Iterable[str]) -> Ruled | None:
    """What the opinions come to; ``None`` means somebody is still to be heard."""
    gone = next((o for o in case.opinions if o.outcome.verdict == "gone"), None)
    if gone is not None:
        return Ruled(Ruling.GONE, "gone", gone.outcome.message, gone.outcome)
    if case.running or choose(case, nodes) is not None:
        return None
    telling = case.telling
    unread = [o.outcome for o in case.opinions if o.outcome.reason == "unreadable"]
    if not telling and unread:
        # Hadoop's clients do not tell the NameNode when every replica is bad, so HDFS does not call
        # the block corrupt; but what nobody can read has not been seen to be wrong.
        return Ruled(Ruling.STORAGE, "unreadable", unread[0].message[:MAX_EVIDENCE], unread[0])
    if not telling:
        why = case.opinions[0].outcome.message if case.opinions else "no node could check it"
        return Ruled(Ruling.SUSPECTED, "not-checked", f"{_said(case.suspect)}; {why}")
    if len({(o.outcome.length, o.outcome.mtime_ms) for o in telling}) > 1:
        return Ruled(Ruling.GONE, "changed", "it was written again meanwhile", telling[-1].outcome)
    return _rule(case.suspect, telling)


def _rule(suspect: Suspect, telling: Sequence[Opinion]) -> Ruled:
    corrupt = [o for o in telling if o.outcome.verdict == "corrupt"]
    storage = [o for o in telling if o.outcome.verdict == "storage"]
    clean = [o for o in telling if o.outcome.verdict == "clean"]
    if corrupt and not clean:
        first = corrupt[0].outcome
        evidence = f"{first.message}; seen on {_nodes(corrupt)}"
        return Ruled(Ruling.PROVED, first.reason, evidence, first)
    if corrupt:
        evidence = (
            f"damaged as {_nodes(corrupt)} reads it ({corrupt[0].outcome.message}), whole as "
            f"{_nodes(clean)} does: check that node"
        )
        return Ruled(Ruling.SUSPECTED, "read-differently", evidence, clean[0].outcome)
    if storage:
        outcome = storage[0].outcome
        return Ruled(Ruling.STORAGE, outcome.reason, outcome.message, outcome)
    outcome = clean[0].outcome
    looked = f"checked as {outcome.format} on {_nodes(clean)}: no damage found"
    if outcome.is_covered:
        return Ruled(Ruling.CLEARED, "checked", f"{looked}; {_said(suspect)}", outcome)
    evidence = f"{_said(suspect)}; {looked}, but the format has no checksums that cover it all"
    return Ruled(Ruling.SUSPECTED, "not-provable", evidence, outcome)


def _said(suspect: Suspect) -> str:
    which = ""
    if suspect.first >= 0:
        last = f" to {suspect.last}" if suspect.last > suspect.first else ""
        which = f", record {suspect.first}{last}"
    times = f" {suspect.times} times" if suspect.times > 1 else ""
    return f"{suspect.node or 'the job'} reported{times}{which}: {suspect.reason}"


def _nodes(opinions: Iterable[Opinion]) -> str:
    return " and ".join(dict.fromkeys(o.node for o in opinions))


@dataclass(frozen=True, slots=True)
class CheckOrder:
    """A check to run."""

    number: int
    path: str
    node: str


@dataclass(slots=True)
class Suspicions:
    """All cases of one AM attempt. Times in seconds, as the caller counts them."""

    cases: dict[str, Case] = field(default_factory=dict)
    _number: int = 0

    def add(self, suspect: Suspect) -> bool:
        """``False`` means the file is known already, or there are too many."""
        known = self.cases.get(suspect.path)
        if known is not None:
            same = known.suspect
            firsts = [n for n in (same.first, suspect.first) if n >= 0]
            more = replace(
                same,
                times=same.times + suspect.times,
                first=min(firsts, default=-1),
                last=max(same.last, suspect.last),
            )
            self.cases[suspect.path] = replace(known, suspect=more)
            return False
        if len(self.cases) >= MAX_CASES:
            return False
        self.cases[suspect.path] = Case(suspect)
        return True

    def next_order(self, node: str, nodes: Sequence[str], now_s: float) -> CheckOrder | None:
        """What this node should check now. One check at a time on each."""
        if any(one.node == node for case in self.cases.values() for one in case.running):
            return None
        for path, case in self.cases.items():
            if choose(case, nodes) == node:
                self._number += 1
                until_s = now_s + CHECK_LIMIT_S + ANSWER_MARGIN_S
                running = (*case.running, RunningCheck(self._number, node, until_s))
                self.cases[path] = replace(case, running=running)
                return CheckOrder(self._number, path, node)
        return None

    def withdraw(self, number: int) -> None:
        """Take a check back; the same node may get it again."""
        for path, case in self.cases.items():
            left = tuple(one for one in case.running if one.order != number)
            if left != case.running:
                self.cases[path] = replace(case, running=left)
                return

    def done(self, number: int, outcome: CheckResult) -> None:
        """A check has ended. One that nobody waits for any more changes nothing."""
        for path, case in self.cases.items():
            for one in case.running:
                if one.order == number:
                    self.cases[path] = replace(
                        case,
                        running=tuple(other for other in case.running if other is not one),
                        opinions=(*case.opinions, Opinion(one.node, outcome)),
                    )
                    return

    def settle(self, nodes: Sequence[str], now_s: float) -> list[Case]:
        """Give up checks that take too long or whose node is gone; the cases that are ruled now."""
        ruled: list[Case] = []
        for path, case in list(self.cases.items()):
            if case.ruled is not None:
                continue
            for one in case.running:
                if now_s > one.until_s or one.node not in nodes:
                    self.done(one.order, NotChecked(f"{one.node} did not answer"))
            case = self.cases[path]
            verdict = rule(case, nodes)
            if verdict is not None:
                self.cases[path] = replace(case, ruled=verdict)
                ruled.append(self.cases[path])
        return ruled

    @property
    def open_cases(self) -> int:
        return sum(case.ruled is None for case in self.cases.values())


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
