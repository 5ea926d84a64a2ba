"""Find what brought a launched gang down, as a value and in words: the first loss, or the first
failed process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from signal import Signals

from yarnam.core.failures.first_failure import (
    FailedProcess,
    Weight,
    in_order_of_cause,
    weight_of,
)
from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.gang.state import Gang, Loss, LossKind, Member
from yarnam.core.model.events import GangHung
from yarnam.core.model.outcomes import (
    ExitKind,
    FailureClass,
    Finding,
    FirstCause,
    ProcessExit,
    RetryAction,
)

HARMLESS = frozenset({ExitKind.OK, ExitKind.STOPPED})

CAUSE_SLACK_S = 7.0
"""A loss noticed up to this much after a process failed may have caused it: peers of a lost task
fail immediately, YARN's report comes a NodeManager heartbeat (1 s), an AM heartbeat (3 s while it
is idle) and a poll (0.5 s) later, and the nodes' clocks differ."""

MAX_THEN = 8
"""How many processes a verdict names after the first one."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """A process that failed."""

    member: Member
    process: ProcessExit

    @property
    def rank(self) -> int:
        return self.member.first_rank + self.process.local_rank

    @property
    def finding(self) -> Finding:
        return self.process.finding or UNKNOWN

    @property
    def action(self) -> RetryAction:
        if self.process.kind is ExitKind.COMMAND_NOT_FOUND:
            return RetryAction.NEVER
        return self.finding.action


def failures(gang: Gang) -> list[Culprit]:
    """The processes that failed, the first cause first."""
    members = [member for member in gang.members if not member.is_tolerated]
    culprits = [Culprit(member, process) for member in members for process in member.exits]
    failed = [
        FailedProcess(
            number,
            culprit.rank,
            culprit.process.ended_at_s,
            culprit.process.finding,
            was_stopped=culprit.process.kind is ExitKind.STOPPED,
        )
        for number, culprit in enumerate(culprits)
        if culprit.process.kind is not ExitKind.OK
    ]
    return [culprits[one.key] for one in in_order_of_cause(failed)]


def first_failure(gang: Gang) -> Culprit | None:
    """The failed process that the others failed because of."""
    return next(iter(failures(gang)), None)


def first_loss(gang: Gang) -> tuple[Member, Loss] | None:
    """The loss that came first; a preemption before all others, because YARN itself announced
    it."""
    losses = [
        (member, member.loss)
        for member in gang.members
        if member.loss is not None and not member.is_tolerated
    ]
    return min(
        losses,
        key=lambda pair: (pair[1].kind is not LossKind.PREEMPTED, pair[1].at_s),
        default=None,
    )


def causing_loss(gang: Gang) -> tuple[Member, Loss] | None:
    """The first loss, unless a process had failed on its own clearly before it."""
    loss, culprit = first_loss(gang), first_failure(gang)
    if loss is None or culprit is None or _is_symptom(culprit):
        return loss
    return loss if loss[1].at_s <= culprit.process.ended_at_s + CAUSE_SLACK_S else None


def cause_of(gang: Gang) -> FirstCause | None:
    """The first cause for the record, if it was a process or YARN's report of a container."""
    if gang.stopping is not None and gang.stopping.hang is not None:
        return _hang_cause(gang, gang.stopping.hang)
    loss, others = causing_loss(gang), failures(gang)
    if loss is not None:
        member, what = loss
        if what.finding is None:
            return None
        return container_cause(member, what.text, what.finding, others)
    if not others:
        return None
    first, *others = others
    ended = exit_text(first.process)
    return _cause(first.member, first.rank, ended, first.finding, others)


def _hang_cause(gang: Gang, hang: GangHung) -> FirstCause:
    """Blame the first rank that did not arrive, or rank 0 if none is known."""
    rank = min(hang.ranks, default=0)
    member = max(
        (member for member in gang.members if member.first_rank <= rank),
        key=lambda member: member.first_rank,
        default=gang.members[0],
    )
    node = str(member.grant.node) if member.grant else ""
    is_hang = hang.finding.failure is FailureClass.HANG
    ended = "hung" if is_hang else "failed, and did not exit"
    return FirstCause(member.name, rank, node, ended, hang.finding, hang.where)


def container_cause(
    member: Member, text: str, finding: Finding, others: Iterable[Culprit] = ()
) -> FirstCause:
    """The first cause where YARN reported how the member's container ended."""
    return _cause(member, member.first_rank, text.splitlines()[0], finding, list(others))


def _cause(
    member: Member, rank: int, ended: str, finding: Finding, others: list[Culprit]
) -> FirstCause:
    then = [f"rank {one.rank}: {_named(one.finding)}" for one in others[:MAX_THEN]]
    if len(others) > MAX_THEN:
        then.append(f"and {len(others) - MAX_THEN} more")
    node = str(member.grant.node) if member.grant else ""
    return FirstCause(member.name, rank, node, ended, finding, tuple(then))


def _named(finding: Finding) -> str:
    return finding.failure.value + (f" ({finding.rule})" if finding.rule else "")


def _is_symptom(culprit: Culprit) -> bool:
    process = culprit.process
    one = FailedProcess(0, culprit.rank, process.ended_at_s, process.finding)
    return weight_of(one) is Weight.SYMPTOM


# ---- words ---------------------------------------------------------------------------------------


def culprit_text(culprit: Culprit) -> str:
    """``worker-1 (rank 3) on node2 exited with code 1 (import-error: ModuleNotFoundError)``."""
    member = culprit.member
    node = f" on {member.grant.node}" if member.grant else ""
    text = f"{member.name} (rank {culprit.rank}){node} {exit_text(culprit.process)}"
    return f"{text}{finding_text(culprit.process.finding)}"


def finding_text(finding: Finding | None) -> str:
    """`` (import-error: ModuleNotFoundError: ...)``; nothing where nothing is known."""
    if finding is None or not finding.rule:
        return ""
    line = f": {finding.line}" if finding.line else ""
    return f" ({finding.failure.value}{line})"


def loss_text(member: Member, loss: Loss) -> str:
    """``worker-3 on n5: agent silent: not heard of for 8 s``."""
    node = f" on {member.grant.node}" if member.grant else ""
    return f"{member.name}{node}: {loss.kind.value}: {loss.text}"


def ended_text(member: Member) -> str:
    """How one member failed, or was lost."""
    if member.loss is not None:
        return f"{member.loss.kind.value}: {member.loss.text}"
    return exits_text(member.exits)


def exits_text(exits: tuple[ProcessExit, ...]) -> str:
    """How the first failing process of a task ended."""
    failing = [process for process in exits if process.kind not in HARMLESS]
    first = min(failing, key=lambda process: process.ended_at_s, default=None)
    return exit_text(first) if first else "stopped without a stop request"


def exit_text(process: ProcessExit) -> str:
    """How a process ended, in words."""
    return {
        ExitKind.OK: "ended well",
        ExitKind.NON_ZERO: f"exited with code {process.code}",
        ExitKind.SIGNAL: f"was killed by {signal_name(process.signal)}",
        ExitKind.COMMAND_NOT_FOUND: "could not start: command not found",
        ExitKind.NOT_STARTED: "could not be started",
        ExitKind.STOPPED: "was stopped",
    }[process.kind]


def signal_name(number: int) -> str:
    """``SIGKILL``; of a number without a name ``signal 99``."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
