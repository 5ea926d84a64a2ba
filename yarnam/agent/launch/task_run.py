"""The user's processes of one task, from launch to end."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from yarnam._light_imports import on_first_use
from yarnam.agent.keeper.keeper_client import Exited, KeeperClient, StartOrder
from yarnam.agent.launch.formed_group import FormedGroup, GroupFile, LaunchedGroup
from yarnam.agent.launch.log_files import append_note, last_lines, log_disk_problem
from yarnam.agent.launch.output_streams import OutputStreams
from yarnam.agent.launch.overdue_exit import OverdueExit
from yarnam.agent.launch.process_activity import ActivityProbe, tree
from yarnam.agent.launch.stack_dump import dump_stack
from yarnam.agent.launch.stop_agreement import (
    GIVE_UP_S,
    POLL_S,
    StopFile,
    StopStep,
    have_come,
    least_step,
)
from yarnam.agent.machine.agent_events import ProcessFailed, RunEnded, RunStarted
from yarnam.agent.metrics_inbox import Sample, with_newest_step
from yarnam.agent.resources.gpu_devices import ENV_GPU_IDS
from yarnam.agent.resources.gpu_usage import GpuUsage
from yarnam.agent.resources.kernel_log import kernel_lines
from yarnam.agent.resources.memory_kills import KILLED_FOR_MEMORY, MemoryKills
from yarnam.core.model.metrics import MirrorReport
from yarnam.core.model.outcomes import ExitKind, Finding
from yarnam.errors import YarnamError
from yarnam.wire.protocol import CHECKPOINT_PAUSE, ENV_ERROR_FILE

if TYPE_CHECKING:
    from yarnam.core.failures.rank_activity import Collective

with on_first_use():
    from yarnam.agent.launch import failure_examination, flight_recorder

AFTER_CRASH_S = 10.0
"""The end of a failed task is reported so much later at most. While HDFS is away nobody could act
on it anyway: the AM writes its journal there."""

_LOG = logging.getLogger("yarnam.agent")

_MISSING = frozenset({"ENOENT", "EACCES", "ENOEXEC", "ENOTDIR", "EISDIR", "ELOOP", "EPERM"})

_FAILED_BY_ITSELF = frozenset({ExitKind.NON_ZERO, ExitKind.SIGNAL})

_BY_OUR_STOP = frozenset({signal.SIGTERM, signal.SIGKILL, signal.SIGINT})
"""How a process ends that was asked to. One that ends otherwise may have failed before."""

OVERDUE = "yarnam: an exception had ended the process, but it did not exit: the agent ended it"

SAVE_POLL_S = 0.1
"""How often it is seen whether a checkpoint is still being written."""

COMMAND_NOT_FOUND_CODE = 127
"""A shell's word for it (POSIX sh)."""


class ProcessPlan(NamedTuple):
    """One process to be. ``problem``: why it cannot be, found before trying."""

    rank: int
    local_rank: int
    path: str
    argv: Sequence[str]
    env: dict[str, str]
    log: Path
    problem: str = ""
    problem_kind: ExitKind = ExitKind.COMMAND_NOT_FOUND
    """How a process with a problem is said to have ended."""


@dataclass
class Process:
    """One process; the fields after ``ended`` count from then on."""

    plan: ProcessPlan
    pid: int = 0
    ended: bool = False
    kind: ExitKind = ExitKind.NOT_STARTED
    code: int = 0
    signal: int = 0
    ended_at_s: float = 0.0
    last_lines: tuple[str, ...] = ()
    finding: Finding | None = None
    """Why it failed; ``None`` if it did not."""
    output: OutputStreams = field(default_factory=OutputStreams)
    """Where in its log this run of it begins, and what came from which stream."""
    is_ready: bool = False
    """It has said so."""
    sample: Sample | None = None
    first_sample: Sample | None = None
    """The first one with a step."""
    peak_memory_mib: int = 0
    """The most main memory that it, or one of its children, has used; 0 if it is not known."""
    probe: ActivityProbe | None = None
    """Whether it does anything; ``None`` before its start."""
    exit: OverdueExit | None = None
    """Whether it should have exited; ``None`` before its start."""
    is_overdue: bool = False
    """It did not exit after an exception, and was ended."""
    stack: tuple[str, ...] | None = None
    """Where it was when its stack was dumped; ``None`` if it was not dumped, or has
    continued since."""

    collective: Collective | None = None
    """The last one that it had begun by then, where its framework has recorded that."""
    mirror: MirrorReport | None = None
    """The files that its task keeps of ``checkpoint.mirror``; of the task's first process."""
    raised: failure_examination.Raised | None = None
    """What its output said of a failure by then, although it lives."""

    @property
    def step_s(self) -> float | None:
        """Seconds of one of its steps, on average since the first report; ``None`` if unknown."""
        first, last = self.first_sample, self.sample
        if first is None or last is None or first.step is None or last.step is None:
            return None
        took_s, steps = last.at_s - first.at_s, last.step - first.step
        return took_s / steps if steps > 0 and isfinite(took_s) and took_s > 0 else None


class Graces(NamedTuple):
    """Between SIGTERM and SIGKILL, in seconds."""

    stop_s: float
    failure_s: float
    """When another process has failed, of those that write no checkpoint."""


@dataclass
class TaskRun:
    """One launch. ``notify`` gets ``RunStarted``, ``ProcessFailed`` and ``RunEnded``. The first
    process that fails ends the others: SIGTERM, a grace, SIGKILL."""

    keeper: KeeperClient
    attempt: int
    stop_file: Path
    """Written before anything is stopped: ``yarnam.train`` checks for it."""
    graces: Graces
    notify: Callable[[RunStarted | ProcessFailed | RunEnded], None]
    at_end: Callable[[float], Awaitable[object]] | None = None
    """Awaited between the end of the processes and its report: called with the seconds
    that it may take. A stop limits it to its grace."""
    secrets: Collection[str] = ()
    """Values that no report may hold."""
    rules: Sequence[Mapping[str, object]] = ()
    """The job's own rules for failures, as its record holds them."""
    processes: list[Process] = field(default_factory=list)
    stop_step: StopStep | None = None
    """Answer to ``ask_for_step``."""
    group_source: GroupFile | LaunchedGroup | None = None
    """``None`` but in the first task of an in-place elastic gang."""
    group: FormedGroup | None = None
    """The newest one that the framework has formed; ``None`` if it is not known."""
    _memory_kills: MemoryKills = field(default_factory=MemoryKills)
    _gpus: GpuUsage = field(default_factory=GpuUsage)
    _is_stopping: bool = False
    _all_ended: asyncio.Event = field(default_factory=asyncio.Event)
    _done: asyncio.Event = field(default_factory=asyncio.Event)
    _stopper: asyncio.Task[None] | None = None
    _killer: asyncio.Task[None] | None = None
    _stop_requested: asyncio.Event = field(default_factory=asyncio.Event)
    _stop_ends_s: float | None = None

    _is_step_known: bool = False

    def __post_init__(self) -> None:
        self._stop_request = StopFile(self.stop_file)

    @property
    def has_failed(self) -> bool:
        """A process of it failed, and was not stopped."""
        return any(process.kind in _FAILED_BY_ITSELF for process in self.processes)

    @property
    def has_succeeded(self) -> bool:
        return all(process.kind is ExitKind.OK for process in self.processes)

    @property
    def has_ended_well(self) -> bool:
        """Each of them ended with exit code 0, be it after a stop."""
        return all(
            process.ended and process.pid and not (process.code or process.signal)
            for process in self.processes
        )

    @property
    def is_stopped(self) -> bool:
        """Somebody else wants it to end, and gives it a grace."""
        return self._stop_ends_s is not None

    async def run(self, plans: Sequence[ProcessPlan], directory: Path) -> None:
        """Start them all in ``directory``, then watch; returns when none of them is left."""
        self.processes = [Process(plan) for plan in plans]
        self.keeper.on_exit = self._take_exit
        try:
            for process in self.processes:
                if not self._is_stopping:
                    await self._start(process, directory)
            if all(process.pid for process in self.processes):
                # STARTED is reported even when one has ended already.
                self.notify(RunStarted(self.attempt))
            else:
                await self._give_up()
            await self._all_ended.wait()
            left = await self.keeper.sweep()
            if left:
                _LOG.error("%d processes cannot be killed: they hang in the kernel", left)
            await self._wait_at_end()
        except YarnamError as error:
            _LOG.error("%s", error)
            self._take_loss()
        self._done.set()
        self.notify(RunEnded(self.attempt))

    @property
    def is_saving(self) -> bool:
        """Whether one of them writes a checkpoint, by its own word."""
        return any(
            process.sample is not None and process.sample.pause == CHECKPOINT_PAUSE
            for process in self.processes
            if not process.ended
        )

    async def stop(self, grace_s: float, reason: str, idle_grace_s: float | None = None) -> None:
        """End them; they are reported STOPPED. Harmless when they have ended. ``idle_grace_s``: of
        a task that writes no checkpoint; ``None`` means ``grace_s``."""
        self._stop_ends_s = time.monotonic() + grace_s
        self._stop_requested.set()
        await self._end_them(grace_s, reason, idle_grace_s)

    def ask_for_step(self, grace_s: float, reason: str) -> None:
        """Ask them to end after the same step as the rest of the gang: ``stop_step`` is the least
        one from here. ``stop_after`` or ``stop`` has to follow."""
        if self._all_ended.is_set() or self._is_stopping:
            return
        _LOG.info("the processes are asked for the step to stop after: %s", reason)
        self._is_stopping = True
        self._stop_ends_s = time.monotonic() + grace_s
        self._write_stop_file(reason, grace_s, agree=True)
        self.stop_step = StopStep(least_step(self.stop_file, self._living()))
        self._stopper = asyncio.create_task(self._stop_without_step(grace_s, reason))

    async def _stop_without_step(self, grace_s: float, reason: str) -> None:
        """The ApplicationMaster may be away, or another member."""
        await asyncio.sleep(min(GIVE_UP_S, grace_s / 3))
        if not self._is_step_known:
            _LOG.warning("the gang has not agreed on a step to stop after: each stops for itself")
            assert self._stop_ends_s is not None
            await self._end_them(max(0.0, self._stop_ends_s - time.monotonic()), reason)

    async def stop_after(self, step: int, reason: str) -> None:
        """End them when all have come to this step, and in time for their grace in any case."""
        if self.stop_step is None or self._stop_ends_s is None or self._all_ended.is_set():
            return
        self._is_step_known = True
        left_s = max(0.0, self._stop_ends_s - time.monotonic())
        _LOG.info("the processes stop after step %d", step)
        self._write_stop_file(reason, left_s, at_step=step)
        latest_s = time.monotonic() + left_s / 2
        while time.monotonic() < latest_s and not self._all_ended.is_set():
            if have_come(self.stop_file, self._living()):
                break
            await asyncio.sleep(POLL_S)
        await self._end_them(max(0.0, self._stop_ends_s - time.monotonic()), reason)

    def _living(self) -> list[int]:
        return [process.plan.local_rank for process in self.processes if not process.ended]

    def _write_stop_file(
        self, reason: str, grace_s: float, *, agree: bool = False, at_step: int | None = None
    ) -> None:
        try:
            self._stop_request.write(reason, grace_s, agree=agree, at_step=at_step)
        except OSError as error:
            _LOG.warning("cannot make the stop file: %s", error)

    async def _end_them(
        self, grace_s: float, reason: str, idle_grace_s: float | None = None
    ) -> None:
        if self._all_ended.is_set():
            return
        _LOG.info("stopping the processes: %s (grace %.1f s)", reason, grace_s)
        self._is_stopping = True
        self._write_stop_file(reason, grace_s)
        try:
            await self.keeper.stop(grace_s)
        except YarnamError as error:
            _LOG.error("%s", error)
        if idle_grace_s is not None and idle_grace_s < grace_s and self._killer is None:
            self._killer = asyncio.create_task(self._kill_when_idle(idle_grace_s))

    async def _kill_when_idle(self, after_s: float) -> None:
        """SIGKILL as soon as none of them writes a checkpoint; the keeper knows the last moment."""
        try:
            await asyncio.wait_for(self._all_ended.wait(), after_s)
        except asyncio.TimeoutError:
            while self.is_saving and not self._all_ended.is_set():
                await asyncio.sleep(SAVE_POLL_S)
            if not self._all_ended.is_set():
                _LOG.info("none of the processes writes a checkpoint: they are killed")
                with suppress(YarnamError):  # whoever waits for their end sees why
                    await self.keeper.stop(0.0)

    def abandon(self) -> None:
        """Give them up: the keeper is gone, and the kernel has killed all processes with it; or how
        they end is not theirs to answer for."""
        self._take_loss()

    async def wait(self, limit_s: float) -> None:
        """Until no process of it is left, at most ``limit_s``."""
        try:
            await asyncio.wait_for(self._done.wait(), limit_s)
        except asyncio.TimeoutError:
            _LOG.error("the processes did not end within %.1f s", limit_s)

    @property
    def all_ready(self) -> bool:
        """All of them have said that they are ready for those that start after them."""
        return bool(self.processes) and all(process.is_ready for process in self.processes)

    def take_sample(self, local_rank: int, sample: Sample) -> bool:
        """Whether it says more than newer numbers."""
        is_news = False
        for process in self.processes:
            if process.plan.local_rank == local_rank and not process.ended:
                is_news |= process.sample is None or process.sample.state != sample.state
                if process.sample is not None and sample.step != process.sample.step:
                    process.stack = process.collective = process.raised = None
                process.sample = sample
                process.is_ready = process.is_ready or sample.is_ready
                if process.first_sample is None and sample.step is not None:
                    process.first_sample = sample
        return is_news

    def _take_written_step(self, process: Process) -> bool:
        """Whether it has written a newer step than it has sent."""
        rank = process.plan.local_rank
        sample = with_newest_step(process.sample, self.stop_file, rank)
        if sample is not None:
            self.take_sample(rank, sample)
        return sample is not None

    def take_written_steps(self) -> None:
        """Read the newest steps, for the next report."""
        for process in self.processes:
            if process.pid and not process.ended:
                self._take_written_step(process)

    def poll(self) -> bool:
        """See what the processes do; whether any has fallen idle, stopped, gone on, or reported
        a step."""
        has_changed = False
        for process in self.processes:
            if process.probe is not None and not process.ended:
                has_changed |= process.probe.poll()
                has_changed |= self._take_written_step(process)
                process.output.poll(process.plan.log)
                ids = process.plan.env.get(ENV_GPU_IDS, "").split(",")
                process.probe.usage.update(self._gpus.read([one for one in ids if one]))
                self._end_overdue(process)
                if self.group_source is not None and process is self.processes[0]:
                    self.group = self.group_source.read(process.pid)
        return has_changed

    def _end_overdue(self, process: Process) -> None:
        """As if it had exited by the exception that has ended it."""
        sample = process.sample
        if process.probe is None or process.exit is None:
            return
        is_due = process.exit.poll(
            sample.raised_pid if sample else 0,
            process.probe.idle_s,
            stepped_at_s=sample.at_s if sample else 0.0,
            is_paused=sample is not None and bool(sample.pause),
        )
        if not is_due or self._is_stopping or process.is_overdue:
            return
        _LOG.warning("rank %d does not exit after an exception: it is ended", process.plan.rank)
        process.is_overdue = True
        for pid in [*tree(process.pid)]:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    async def dump_stacks(self) -> None:
        """Dump the stacks of all processes together; see ``dump_stack`` and ``last_collective``."""
        left = [one for one in self.processes if one.pid and not one.ended]
        self.take_written_steps()
        for process in left:
            process.output.poll(process.plan.log)
            run = self._failed_run(process, 1, 0, ())
            process.raised = failure_examination.raised(run, self.rules, self.secrets)
        plans = [one.plan for one in left]
        asked = asyncio.gather(
            *(flight_recorder.last_collective(one.env, one.log) for one in plans)
        )
        stacks = await asyncio.gather(*(dump_stack(one.pid, one.plan.log) for one in left))
        for process, stack, collective in zip(left, stacks, await asked, strict=True):
            process.stack, process.collective = stack, collective

    async def _wait_at_end(self) -> None:
        if self.at_end is None:
            return
        limit_s = AFTER_CRASH_S
        if self._stop_ends_s is not None:
            limit_s = max(0.0, self._stop_ends_s - time.monotonic())
            self._stop_requested.clear()  # this stop is known; another one cuts short again
        elif self.has_succeeded:
            limit_s = float("inf")
        stopped = asyncio.ensure_future(self._stop_requested.wait())
        waiting = asyncio.ensure_future(self.at_end(limit_s))
        try:
            await asyncio.wait({stopped, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done() and self._stop_ends_s is not None:
                left_s = max(0.0, self._stop_ends_s - time.monotonic())
                await asyncio.wait({waiting}, timeout=left_s)
        finally:
            stopped.cancel()
            waiting.cancel()

    # ---- starting ------------------------------------------------------------------------

    async def _start(self, process: Process, directory: Path) -> None:
        plan = process.plan
        if plan.problem:
            self._not_started(process, plan.problem_kind, plan.problem)
            return
        process.output = OutputStreams(_size(plan.log), self.keeper.pid)
        order = StartOrder(
            plan.local_rank, plan.path, plan.argv, plan.env, str(directory), str(plan.log)
        )
        started = await self.keeper.start(order)
        if started.pid:
            # A short process may have been reported ended before we come to this line.
            process.pid = started.pid
            process.output.descriptors = started.logs
            process.probe = ActivityProbe(started.pid, plan.log)
            error_file = plan.env.get(ENV_ERROR_FILE)
            process.exit = OverdueExit(started.pid, Path(error_file) if error_file else None)
            _LOG.info("rank %d runs as process %d", plan.rank, started.pid)
        else:
            kind, text = explain(plan, started.stage, started.errno)
            self._not_started(process, kind, text)

    def _not_started(self, process: Process, kind: ExitKind, text: str) -> None:
        _LOG.error("rank %d was not started: %s", process.plan.rank, text)
        process.output = OutputStreams(_size(process.plan.log))
        append_note(process.plan.log, f"yarnam: {text}")
        self._end(process, kind, code=1 if kind is ExitKind.NON_ZERO else 0, last=(text,))
        if kind is ExitKind.COMMAND_NOT_FOUND:
            self._examine(process, COMMAND_NOT_FOUND_CODE, 0, (text,))
        self._is_stopping = True

    async def _give_up(self) -> None:
        for process in self.processes:
            if not process.pid and not process.ended:
                kind = ExitKind.STOPPED
                self._end(process, kind, last=("not started: another process was not",))
        text = "another process of the task could not be started"
        await self._end_them(self.graces.stop_s, text, self.graces.failure_s)

    # ---- ending --------------------------------------------------------------------------

    def _take_exit(self, end: Exited) -> None:
        process = next(p for p in self.processes if p.plan.local_rank == end.rank)
        if process.ended:
            return
        process.peak_memory_mib = end.peak_kib >> 10
        process.output.mark(*end.ends, process.plan.log)
        code, number = decode_status(end.status)
        if process.is_overdue:
            code, number = 1, 0
        if self._is_stopping:
            kind = ExitKind.STOPPED
        elif number:
            kind = ExitKind.SIGNAL
        else:
            kind = ExitKind.NON_ZERO if code else ExitKind.OK
        self._end(process, kind, code, number)
        if process.is_overdue:
            process.last_lines += (OVERDUE,)
            append_note(process.plan.log, OVERDUE)
        if kind in (ExitKind.SIGNAL, ExitKind.NON_ZERO) and not self._all_ended.is_set():
            self._is_stopping = True
            self._stopper = asyncio.create_task(
                self._end_them(
                    self.graces.stop_s, f"rank {process.plan.rank} failed", self.graces.failure_s
                )
            )
            self.notify(ProcessFailed(self.attempt))

    def _take_loss(self) -> None:
        """The keeper is gone, or does not answer: what ran is not blamed on the program."""
        for process in self.processes:
            if not process.ended and process.pid:
                self._end(process, ExitKind.STOPPED, last=("yarnam: the keeper is gone",))
            elif not process.ended:
                self._end(process, ExitKind.NOT_STARTED, last=("the keeper is gone",))
        self._all_ended.set()

    def _end(
        self,
        process: Process,
        kind: ExitKind,
        code: int = 0,
        number: int = 0,
        last: tuple[str, ...] | None = None,
    ) -> None:
        if process.pid:
            self._take_written_step(process)
        process.ended = True
        process.kind, process.code, process.signal = kind, code, number
        process.ended_at_s = time.time()
        process.last_lines = last_lines(process.plan.log, self.secrets) if last is None else last
        facts = self._facts(process) if kind in _FAILED_BY_ITSELF else ()
        process.last_lines += facts
        if kind in _FAILED_BY_ITSELF:
            self._examine(process, code, number, facts)
        elif kind is ExitKind.STOPPED and process.pid and (number or code):
            # It may have failed before, and been stopped while it was ending.
            is_by_us = number in _BY_OUR_STOP
            self._examine(process, code or 1, 0 if is_by_us else number, ())
        _LOG.info(
            "rank %d ended: %s (code %d, signal %d)", process.plan.rank, kind.value, code, number
        )
        if all(each.ended for each in self.processes):
            self._all_ended.set()

    def _facts(self, process: Process) -> tuple[str, ...]:
        """The facts that the agent knows and the process could not write down."""
        trouble = log_disk_problem(process.plan.log)
        facts = [f"yarnam: {trouble}"] if trouble else []
        if self._memory_kills.has_happened() and process.signal == signal.SIGKILL:
            facts.append(f"yarnam: {KILLED_FOR_MEMORY}")
        if process.signal and process.pid:
            facts += [f"yarnam: the kernel's log: {line}" for line in kernel_lines(process.pid)]
        return tuple(facts)

    def _examine(self, process: Process, code: int, number: int, facts: tuple[str, ...]) -> None:
        run = self._failed_run(process, code, number, facts)
        found = failure_examination.examine(run, self.rules, self.secrets)
        process.finding = found.finding
        if found.child is not None and process.kind in {ExitKind.NON_ZERO, ExitKind.SIGNAL}:
            # The process is a launcher, which ends with 1 whatever its own has ended with.
            process.code, process.signal = found.child.code, found.child.signal
            process.kind = ExitKind.SIGNAL if process.signal else ExitKind.NON_ZERO
        _LOG.info(
            "rank %d: %s (%s): %s",
            process.plan.rank,
            process.finding.failure.value,
            process.finding.rule or "no rule",
            process.finding.line,
        )

    def _failed_run(
        self, process: Process, code: int, number: int, facts: tuple[str, ...]
    ) -> failure_examination.FailedRun:
        path = process.plan.env.get(ENV_ERROR_FILE)
        return failure_examination.FailedRun(
            process.plan.log, process.output, code, number, facts, Path(path) if path else None
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def decode_status(status: int) -> tuple[int, int]:
    """``(exit code, signal)`` of a wait status."""
    if os.WIFSIGNALED(status):
        return 0, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def explain(plan: ProcessPlan, stage: str, number: int) -> tuple[ExitKind, str]:
    """Why the keeper could not start it, for people."""
    name = os.strerror(number)
    symbol = _symbol(number)
    if stage == "exec" and symbol in _MISSING:
        shown = plan.argv[0]
        if symbol == "ENOENT":
            # The file was there when it was looked up: its interpreter is what is missing.
            text = f"command not found: {shown!r}: the interpreter in the first line of {plan.path}"
            return ExitKind.COMMAND_NOT_FOUND, f"{text} does not exist"
        if symbol == "ENOEXEC":
            hint = "it is not executable on this machine, or a script without a #! line"
            text = f"command not executable: {shown!r}: {plan.path}: {hint}"
            return ExitKind.COMMAND_NOT_FOUND, text
        return ExitKind.COMMAND_NOT_FOUND, f"command not executable: {shown!r}: {plan.path}: {name}"
    what = {"log": f"open its log {plan.log}", "chdir": "enter its working directory"}
    return ExitKind.NOT_STARTED, f"cannot {what.get(stage, f'start it ({stage})')}: {name}"


def _symbol(number: int) -> str:
    return errno.errorcode.get(number, "")
