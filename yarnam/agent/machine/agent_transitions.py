"""Every transition of an agent: ``agent_machine.step`` executes this table, top to bottom.

A row names what happens (of a directive its type, of a timer its kind), what is done, and the
phases to which that may lead; a row without phases stays. Of the rows of one event the first whose
guard (``when``) holds is taken. An event without such a row changes nothing: it is late, doubled or
stale.

Before a row is looked for, ``agent_machine`` drops what is late by its name: a directive with the
number of the last one, an answer or a timer with another serial than the one that is awaited, an
event of another launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, Union

from yarnam.agent.machine import task_errands, task_launch, task_stop, task_watch
from yarnam.agent.machine.agent_context import AgentStep
from yarnam.agent.machine.agent_directives import Check, Dump, Launch, Leave, Park, Stage, Stop
from yarnam.agent.machine.agent_events import (
    ActivityPolled,
    Checked,
    CheckpointTried,
    MembersWritten,
    MirrorMoved,
    MirrorRestored,
    PortsChecked,
    PortsFreed,
    PortsRetaken,
    ProcessesEnded,
    ProcessesPlanned,
    ProcessFailed,
    RunEnded,
    RunStarted,
    SampleTaken,
    Signal,
    SpoolsUploaded,
    StacksDumped,
    Staged,
    StrangersFound,
    TokensReceived,
    TokensWritten,
    TroubleFound,
)
from yarnam.agent.machine.agent_state import AgentPhase, AgentTimer

V = TypeVar("V")
Key = Union[type, Signal, AgentTimer]
"""A row's key: the type of an event or of a directive, a signal, or the timer that has
fired."""


class Row(NamedTuple):
    """``to`` is empty for a row that stays in its phase."""

    key: Key
    do: Callable[[AgentStep, Any], None]
    to: tuple[AgentPhase, ...]
    when: Callable[[AgentStep, Any], bool] | None


def on(
    key: type[V] | Signal | AgentTimer,
    do: Callable[[AgentStep, V], None],
    *to: AgentPhase,
    when: Callable[[AgentStep, V], bool] | None = None,
) -> Row:
    """A row of the table."""
    return Row(key, do, to, when)


P, S, T = AgentPhase, Signal, AgentTimer

KILLED = (
    on(S.TERMINATED, task_stop.be_terminated, P.LEFT),
    on(S.FAULTED, task_stop.be_faulty, P.LEFT),
)

ENDS = (
    on(Leave, task_stop.leave, P.LEFT),
    on(S.AM_LOST, task_stop.be_orphaned, P.LEFT),
    *KILLED,
)

ENDS_WITH_RUN = (
    on(Leave, task_stop.leave, P.LEFT, when=task_stop.has_no_processes),
    on(Leave, task_stop.leave_with_run, P.LEAVING),
    on(S.AM_LOST, task_stop.be_orphaned, P.LEFT, when=task_stop.has_no_processes),
    on(S.AM_LOST, task_stop.be_orphaned_with_run, P.LEAVING),
    *KILLED,
)

TALKS = (
    on(S.INTRODUCED, task_errands.poll_first),
    on(TokensReceived, task_errands.write_tokens),
    on(TokensWritten, task_errands.retry_tokens, when=task_errands.has_failed),
    on(T.TOKENS, task_errands.write_tokens_again),
    on(Park, task_errands.stay),
)

STAGES = (
    on(Stage, task_errands.report_staged, when=task_errands.has_nothing_to_stage),
    on(Stage, task_errands.stage),
    on(Staged, task_errands.end_staging, when=task_errands.is_of_directive),
    on(TroubleFound, task_errands.report_trouble),
)

CHECKS = (
    on(Check, task_errands.check),
    on(Checked, task_errands.report_checked, when=task_errands.is_awaited),
)

REPORTS_RUN = (
    on(S.AM_FOUND, task_errands.report_given_up, when=task_errands.has_given_up),
    on(S.AM_FOUND, task_errands.report_run),
)

LAUNCHES = (
    on(Launch, task_launch.write_members, when=task_launch.names_members),
    on(Launch, task_launch.begin, P.LAUNCHING, when=task_launch.is_new),
    on(Launch, task_errands.end_check),
    on(MembersWritten, task_launch.report_problem, when=task_launch.has_problem),
    on(
        MembersWritten,
        task_launch.begin_with_members,
        P.LAUNCHING,
        when=task_launch.is_new_with_members,
    ),
)

HAS_RUN = (
    on(Launch, task_launch.write_members, when=task_launch.names_members),
    on(MembersWritten, task_launch.report_problem, when=task_launch.has_problem),
    on(Stop, task_stop.stop, when=task_stop.is_for_run),
    on(SampleTaken, task_watch.take_sample),
    on(ProcessesEnded, task_watch.find_strangers),
    on(StrangersFound, task_watch.strangers_found),
    on(RunEnded, task_watch.end_watch, P.EXITED, when=task_watch.is_abandoned),
    on(RunEnded, task_watch.report_end, P.EXITED),
    on(S.KEEPER_LOST, task_watch.abandon),
    on(T.PORTS, task_watch.check_ports),
    on(PortsChecked, task_watch.ports_checked),
    on(T.ACTIVITY, task_watch.poll_late),
)

TABLE: Mapping[AgentPhase, tuple[Row, ...]] = {
    P.PREPARING: (
        on(S.OPENED, task_errands.prepare),
        on(S.PREPARED, task_errands.park, P.PARKED),
        on(TroubleFound, task_errands.give_up_preparing, P.UNABLE),
        on(S.KEEPER_LOST, task_watch.report_keeper),
        *KILLED,
    ),
    P.UNABLE: (
        on(S.KEEPER_LOST, task_watch.report_keeper),
        *TALKS,
        *ENDS,
    ),
    P.PARKED: (
        on(S.AM_FOUND, task_errands.introduce),
        on(S.KEEPER_LOST, task_watch.report_keeper),
        on(S.STAGING_MOVED, task_errands.report_parked, when=task_errands.has_nothing_unsent),
        *LAUNCHES,
        *CHECKS,
        *STAGES,
        *TALKS,
        *ENDS,
    ),
    P.LAUNCHING: (
        # Its parts, in this order.
        on(Staged, task_launch.inputs_staged, when=task_launch.is_awaited),
        on(SpoolsUploaded, task_launch.retake_ports, when=task_launch.is_awaited),
        on(PortsRetaken, task_launch.ports_retaken, when=task_launch.is_awaited),
        on(PortsFreed, task_launch.ports_freed, when=task_launch.is_awaited),
        on(ProcessesPlanned, task_launch.planned, when=task_launch.is_awaited),
        on(CheckpointTried, task_launch.checkpoint_tried, when=task_launch.is_awaited),
        on(MirrorRestored, task_launch.mirror_restored, when=task_launch.is_awaited),
        on(RunStarted, task_watch.note_start, P.RUNNING, when=task_watch.is_abandoned),
        on(RunStarted, task_watch.report_start, P.RUNNING),
        *HAS_RUN,
        *STAGES,
        *TALKS,
        *ENDS_WITH_RUN,
    ),
    P.RUNNING: (
        on(ProcessFailed, task_watch.report_failure, when=task_watch.is_accountable),
        on(S.POLL_BEGUN, task_watch.add_progress, when=task_watch.has_nothing_unsent),
        on(S.METRICS_DUE, task_watch.report_metrics),
        on(ActivityPolled, task_watch.report_group, when=task_watch.is_new_group),
        on(ActivityPolled, task_watch.send_metrics, when=task_watch.is_late_news),
        on(MirrorMoved, task_watch.send_metrics),
        on(Dump, task_watch.dump, when=task_watch.is_of_run),
        on(StacksDumped, task_watch.report_stacks),
        *REPORTS_RUN,
        *HAS_RUN,
        *STAGES,
        *TALKS,
        *ENDS_WITH_RUN,
    ),
    P.EXITED: (
        on(S.KEEPER_LOST, task_watch.report_keeper),
        on(S.STAGING_MOVED, task_errands.report_exited, when=task_errands.has_nothing_unsent),
        *REPORTS_RUN,
        *LAUNCHES,
        *CHECKS,
        *STAGES,
        *TALKS,
        *ENDS,
    ),
    P.LEAVING: (
        on(S.STOPPED, task_stop.leave_stopped, P.LEFT),
        on(RunEnded, task_stop.close_logs),
        on(S.KEEPER_LOST, task_watch.abandon),
        on(T.ACTIVITY, task_watch.poll_late),
        *KILLED,
    ),
    P.LEFT: (),
}


def _by_key(rows: tuple[Row, ...]) -> Mapping[Key, tuple[Row, ...]]:
    by_key: dict[Key, tuple[Row, ...]] = {}
    for row in rows:
        by_key[row.key] = (*by_key.get(row.key, ()), row)
    return by_key


HANDLERS: Mapping[AgentPhase, Mapping[Key, tuple[Row, ...]]] = {
    phase: _by_key(rows) for phase, rows in TABLE.items()
}
