"""One agent's session with the AM: what it reported, and what it shall do. No I/O, one thread.

Each report carries the agent's whole state; a session turns reports into events, each event once.
Directives are desired states with growing numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from yarnam.adapters.grpc.check_messages import node_measures
from yarnam.adapters.grpc.finding_messages import finding_of_report
from yarnam.adapters.grpc.rank_watch import RankWatch
from yarnam.adapters.grpc.wake_sender import WakePoint, wake_point
from yarnam.core.model import events as ev
from yarnam.core.model.actions import AdoptedTask
from yarnam.core.model.ids import AskId, ContainerId, NodeId
from yarnam.core.model.metrics import RESTORED_STEP, AgentMetrics, Measured, MirrorReport
from yarnam.core.model.outcomes import (
    ExitKind,
    ProcessExit,
)
from yarnam.ports import AgentStaging
from yarnam.wire.pb import yarnam_pb2 as pb

_MAX_SIZE = (1 << 63) - 1
"""Records hold signed 64-bit numbers; protobuf's have one bit more. Records hold no NaN either."""


_FAILED = frozenset({ExitKind.NON_ZERO.value, ExitKind.SIGNAL.value})


class AgentSession:
    """One ask's agent. Times are the caller's monotonic clock, except ``at_s`` of events."""

    def __init__(self, ask: AskId, poll_after_s: float = 0.0, first_number: int = 1) -> None:
        """``poll_after_s``: between two polls of its agent, if that can be woken. The directives
        are numbered from ``first_number`` on."""
        self.ask = ask
        self.container = ""
        """The container of the first agent that called for this ask. Any other agent must LEAVE."""
        poll_after_ms = round(poll_after_s * 1000)
        self.directive = pb.Directive(
            number=first_number, park=pb.Park(), poll_after_ms=poll_after_ms
        )
        """The newest, without ``shared_env``."""
        self.shared_env = b""
        """The part of a launch that is the same for all agents, serialized once for all
        sessions."""
        self._first_number = first_number
        self.acknowledged = 0
        """The newest directive number that the agent has named as seen."""
        self.delivered = 0
        """The newest directive number that an answer to the agent has carried."""
        self.heard_at: float | None = None
        self.is_silent = False
        self.wake: WakePoint | None = None
        self.announced = 0
        """The directive that the last datagram to the agent spoke of."""
        """Where its agent may be woken; ``None`` means nowhere."""
        self.metrics: dict[int, AgentMetrics] = {}
        """By rank, of the launch ``measured``: an agent that starts its processes again may have
        other ranks."""
        self.measured = 0
        self.watches: dict[int, RankWatch] = {}
        """By rank, of the launch ``watched``."""
        self.watched = 0
        self.staging: AgentStaging | None = None
        """How far it is with its inputs; ``None`` means it brings none."""
        self.agent_address = ""
        """Where its agent listens for clients (host:port), since it has registered."""
        self._is_registered = False
        self._is_unable = False
        self._staged: set[int] = set()
        self._awaited_check: int | None = None
        """Number of the check that was ordered and is not answered yet."""
        self._started: set[int] = set()
        self._ready: set[int] = set()
        self._group = (0, 0)
        """The newest group of processes: its attempt and its number."""
        self._failing: set[int] = set()
        self._exited: set[int] = set()

    @property
    def is_dismissed(self) -> bool:
        return bool(self.directive.WhichOneof("order") == "leave")

    @property
    def has_left(self) -> bool:
        """Nobody to wait for: never called, silent, or has fetched the order to leave."""
        return (
            self.heard_at is None
            or self.is_silent
            or (self.is_dismissed and self.delivered >= self.directive.number)
        )

    def is_over(self, now: float, limit_s: float) -> bool:
        """Whether nothing more can come from its agent: it was dismissed, and has left, or has been
        silent for longer than the limit, as when its container was killed."""
        is_silent = self.heard_at is not None and now - self.heard_at >= limit_s
        return self.is_dismissed and (self.has_left or is_silent)

    def adopt(self, task: AdoptedTask, attempt: int, until: float) -> None:
        """Continue the session of an earlier AM attempt. ``until``: from then on the agent's
        silence counts."""
        self.container = str(task.container)
        self.heard_at = until
        # Whoever says that it has seen nothing is another agent, without the task's processes.
        self.acknowledged = self._first_number + 1
        self._is_registered = True
        self.agent_address = task.log_address
        if task.is_started:
            self._started.add(attempt)
        if task.is_ready:
            self._ready.add(attempt)
        if task.has_exited:
            self._exited.add(attempt)

    def heard(self, container: str, now: float) -> bool:
        """A call came; False when it is of another container than the session's."""
        if not self.container:
            self.container = container
        if container != self.container:
            return False
        self.heard_at = now
        self.is_silent = False
        return True

    def order(self, directive: pb.Directive, shared_env: bytes) -> bool:
        """Want something else of the agent; False when that is wanted already. An agent that is
        to leave is never called back."""
        directive.number = self.directive.number
        directive.poll_after_ms = self.directive.poll_after_ms
        # A gang whose member was replaced is prepared again, in the same attempt. Who said before
        # that it has its inputs is asked to say so once more, even where it needs the same ones.
        asks_again = directive.prepare.attempt in self._staged
        is_same = directive == self.directive and shared_env == self.shared_env
        if self.is_dismissed or (is_same and not asks_again):
            return False
        directive.number += 1
        self.directive = directive
        if directive.HasField("check"):
            self._awaited_check = directive.check.check
        self.shared_env = shared_env
        self._staged.discard(directive.prepare.attempt)
        return True

    def is_to_wake(self, now: float, limit_s: float) -> bool:
        """Whether its agent, heard of within the limit, has not fetched its newest directive."""
        is_heard = self.heard_at is not None and now - self.heard_at < limit_s
        return self.wake is not None and is_heard and self.delivered < self.directive.number

    def take_wake(self, report: pb.AgentReport) -> bool:
        """Whether the report says for the first time where its agent may be woken."""
        if not report.HasField("wake") or (self.wake and self.wake.key == report.wake.key):
            return False
        self.wake = wake_point(report.wake)
        return self.wake is not None

    def reply(self) -> pb.Directive:
        """The directive, as the agent gets it."""
        order = self.directive.WhichOneof("order")
        if order not in {"launch", "prepare"} or not self.shared_env:
            return self.directive
        reply = pb.Directive()
        reply.CopyFrom(self.directive)
        getattr(reply, order).shared_env = self.shared_env
        return reply

    def forgot(self, seen: int) -> bool:
        """Whether the agent that asks from directive ``seen`` on has lost an earlier directive:
        it was started again in its container, and its processes with it."""
        is_new_life = seen == 0 and self.acknowledged > 0 and not self.is_dismissed
        self.acknowledged = max(self.acknowledged, seen)
        return is_new_life and bool(
            self._started or self._exited or self.acknowledged > self._first_number
        )

    def silent_for(self, now: float, limit_s: float) -> float | None:
        """Seconds of silence, once per silence, when they exceed the limit."""
        if self.heard_at is None or self.is_silent or self.is_dismissed:
            return None
        silent_s = now - self.heard_at
        if silent_s < limit_s:
            return None
        self.is_silent = True
        return silent_s

    def report(self, report: pb.AgentReport, at_s: float) -> Iterator[ev.Event]:
        """The events that this report is the first to tell."""
        self._take_metrics(report, at_s)
        if report.state == pb.STARTED:
            self._watch(report, at_s)
        self._take_staging(report)
        state, attempt = report.state, report.attempt
        if state == pb.UNABLE:
            if not self._is_unable:
                self._is_unable = True
                why = (report.message, report.user_fault, report.node_busy)
                yield ev.AgentUnable(at_s, self.ask, *why)
            return
        if not self._is_registered:
            self._is_registered = True
            self.agent_address = report.log_address
            yield registration(report, self.ask, at_s)
        if state == pb.STAGED and attempt not in self._staged:
            self._staged.add(attempt)
            yield ev.TaskStaged(at_s, self.ask, attempt)
        if state == pb.CHECKED and report.check.check == self._awaited_check:
            number, self._awaited_check = self._awaited_check, None
            yield ev.NodeChecked(at_s, self.ask, attempt, number, node_measures(report.check))
        if state == pb.STARTED and attempt not in self._started | self._exited:
            self._started.add(attempt)
            yield ev.TaskStarted(at_s, self.ask, attempt)
        if state == pb.STARTED and report.ready and attempt not in self._ready | self._exited:
            self._ready.add(attempt)
            yield ev.TaskReady(at_s, self.ask, attempt)
        group = (attempt, report.group.number)
        if state == pb.STARTED and report.HasField("group") and group > self._group:
            self._group = group
            yield ev.GroupFormed(at_s, attempt, report.group.number, report.group.tasks)
        failed = tuple(p for p in report.processes if p.ended and p.kind in _FAILED)
        if state == pb.STARTED and failed and attempt not in self._failing | self._exited:
            self._failing.add(attempt)
            yield ev.TaskFailing(at_s, self.ask, attempt, tuple(map(process_exit, failed)))
        if state == pb.EXITED and attempt not in self._exited:
            self._exited.add(attempt)
            exits = tuple(process_exit(process) for process in report.processes)
            yield ev.TaskExited(at_s, self.ask, attempt, exits)

    def see(self, progress: pb.Progress, at_s: float) -> None:
        """What its processes do. A poll may come after the report of their end."""
        if progress.attempt in self._started - self._exited and not self.is_dismissed:
            self._take_metrics(progress, at_s)
            self._watch(progress, at_s)

    def _watch(self, report: pb.AgentReport | pb.Progress, at_s: float) -> None:
        if report.attempt > self.watched:
            self.watched, self.watches = report.attempt, {}
        for process in report.processes:
            if process.rank not in self.watches:
                self.watches[process.rank] = RankWatch(self.ask, process.rank, at_s)
            self.watches[process.rank].see(process, at_s)

    def _take_staging(self, report: pb.AgentReport) -> None:
        if report.HasField("staging"):
            told = report.staging
            self.staging = AgentStaging(
                ask=self.ask,
                files=told.files,
                files_done=told.files_done,
                size=min(told.size, _MAX_SIZE),
                done=min(told.done, _MAX_SIZE),
                cached=min(told.cached, _MAX_SIZE),
                left_s=told.left_s if told.HasField("left_s") and isfinite(told.left_s) else None,
                trouble=told.trouble,
            )

    def _take_metrics(self, report: pb.AgentReport | pb.Progress, at_s: float) -> None:
        for process in report.processes:
            if not process.HasField("metrics"):
                continue
            given = process.metrics
            if report.attempt > self.measured:
                self.metrics = {}
                self.measured = report.attempt
            self.metrics[process.rank] = AgentMetrics(
                ask=self.ask,
                rank=process.rank,
                at_s=given.at_s if given.at_s and isfinite(given.at_s) else at_s,
                step=given.step if given.HasField("step") else None,
                total_steps=given.total_steps if given.HasField("total_steps") else None,
                values=tuple(
                    (name, Measured(value)) for name, value in sorted(given.values.items())
                ),
                attempt=self.measured,
                mirror=_mirror(given.mirror) if given.HasField("mirror") else None,
            )


def _mirror(given: pb.MirrorReport) -> MirrorReport:
    return MirrorReport(
        number=min(given.number, _MAX_SIZE),
        files=given.files,
        size=min(given.size, _MAX_SIZE),
        saved_at_s=given.saved_at_s if isfinite(given.saved_at_s) else 0.0,
        trouble=given.trouble,
    )


def registration(report: pb.AgentReport, ask: AskId, at_s: float) -> ev.AgentRegistered:
    return ev.AgentRegistered(
        at_s=at_s,
        ask=ask,
        container=ContainerId(report.container),
        node=NodeId(report.node),
        address=report.address,
        gpu_ids=tuple(report.gpu_ids),
        ports=tuple((port.name, port.port) for port in report.ports),
        log_address=report.log_address,
        gpu_model=report.gpu_model,
    )


def process_exit(process: pb.ProcessReport) -> ProcessExit:
    """A kind that this version does not know counts as a failure."""
    try:
        kind = ExitKind(process.kind)
    except ValueError:
        kind = ExitKind.NON_ZERO
    return ProcessExit(
        local_rank=process.local_rank,
        kind=kind,
        code=process.code,
        signal=process.signal,
        ended_at_s=process.ended_at_s if isfinite(process.ended_at_s) else 0.0,
        last_lines=tuple(process.last_lines),
        finding=finding_of_report(process.finding) if process.HasField("finding") else None,
        step=process.metrics.step if process.metrics.HasField("step") else None,
        has_only_restored=RESTORED_STEP in process.metrics.values,
        step_s=process.step_s if process.HasField("step_s") and isfinite(process.step_s) else None,
        peak_memory_mib=process.peak_memory_mib or None,
    )
