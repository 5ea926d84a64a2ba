"""Every transition of the gang machine: ``machine.step`` executes this table, top to bottom.

A row names an event (of a timer, the limit that is over), what is done, and the phases to which
that may lead; a row without phases stays. ``when`` is its guard: of the rows of one event the first
whose guard holds is taken. An event without such a row changes nothing: it is late, doubled or
stale. ``machine`` refuses a step that leads to a phase that its row does not name.

Before a row is looked for, ``machine`` drops what is late by its name: an event of another attempt,
or about an ask that the gang does not have; a container that comes for such an ask is released.

``AllEnded`` is the one event inside of a step: of a gang that is being stopped, every end is known.

The chart and the tables of ``docs/reference/gang-machine.md`` are drawn from these rows; what a
guard or an operation does is the first paragraph of its docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, Union, overload

from yarnam.core.gang import am_attempts, attempts, node_blacklist
from yarnam.core.gang.context import AllEnded, StepContext
from yarnam.core.gang.elastic import growth, in_place
from yarnam.core.gang.phases import (
    acquiring,
    concluding,
    launching,
    pre_run,
    replacing,
    running,
    search,
    staging,
    stopping,
    storing,
)
from yarnam.core.gang.phases.slow_nodes import checking, stragglers
from yarnam.core.gang.phases.waiting import awaited_jobs, backing_off, pending, suspended
from yarnam.core.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    AmRestarted,
    AwaitedJobsSeen,
    BrokerFailed,
    CancelRequested,
    ClusterSeen,
    ConditionChanged,
    ContainerEnded,
    ContainerGranted,
    ContainersMarked,
    Event,
    GangHung,
    GroupFormed,
    IdleGpusFound,
    InputsRefused,
    JitterDrawn,
    JobStarted,
    LossFlat,
    NodeChecked,
    NodeLeaving,
    NodesCordoned,
    NodesSuspected,
    NotebookIdle,
    OutputsStored,
    PlanReady,
    PlanRefused,
    ResumeRequested,
    ScaleRequested,
    StoringFailed,
    StoringTroubled,
    StragglersFound,
    SuspendRequested,
    TaskExited,
    TaskFailing,
    TaskReady,
    TaskStaged,
    TaskStarted,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.job_status import Phase

E = TypeVar("E", bound=Union[Event, AllEnded])
Trouble = Union[ContainerEnded, AgentUnable, AgentSilent]
Key = Union[type, TimerKind]
"""The key of a row: the event's type, or the timer that has fired."""


@dataclass(frozen=True, slots=True)
class Row:
    """``to`` is empty for a row that stays in its phase."""

    events: tuple[Key, ...]
    do: Callable[[StepContext, Any], None]
    to: tuple[Phase, ...]
    when: Callable[[StepContext, Any], bool] | None


@overload
def on(
    events: type[E],
    do: Callable[[StepContext, E], None],
    *to: Phase,
    when: Callable[[StepContext, E], bool] | None = None,
) -> Row: ...
@overload
def on(
    events: TimerKind,
    do: Callable[[StepContext, TimerFired], None],
    *to: Phase,
    when: Callable[[StepContext, TimerFired], bool] | None = None,
) -> Row: ...
@overload
def on(
    events: tuple[type[ContainerEnded], type[AgentUnable], type[AgentSilent]],
    do: Callable[[StepContext, Trouble], None],
    *to: Phase,
    when: Callable[[StepContext, Trouble], bool] | None = None,
) -> Row: ...
def on(
    events: Key | tuple[Key, ...],
    do: Callable[[StepContext, Any], None],
    *to: Phase,
    when: Callable[[StepContext, Any], bool] | None = None,
) -> Row:
    """A row of the table."""
    return Row(events if isinstance(events, tuple) else (events,), do, to, when)


P, T = Phase, TimerKind

TROUBLE = (ContainerEnded, AgentUnable, AgentSilent)

FAILS = (P.BACKING_OFF, P.FAILED)
"""A failed attempt: another one after a back-off; or the last, or all waiting is over."""

OPENS = (P.CHECKING, P.STAGING, P.LAUNCHING)
"""The barrier: with nodes to check, with inputs to bring to the nodes, or without."""

ENDS = (
    on(CancelRequested, attempts.cancel, P.CANCELLED),
    on(InputsRefused, attempts.refuse_inputs, P.FAILED),
    on(BrokerFailed, attempts.fail_broker, P.FAILED),
)

HINTS = on(NodesSuspected, node_blacklist.take_hints)
CORDONS = on(NodesCordoned, node_blacklist.take_cordons)
SIZE = on(ScaleRequested, growth.note_size, when=growth.is_another_size)
SUSPEND = on(SuspendRequested, suspended.suspend, P.SUSPENDED)

PENDING = (
    on(JobStarted, pending.begin, when=pending.is_new),
    on(AwaitedJobsSeen, awaited_jobs.fail, P.FAILED, when=awaited_jobs.waits_in_vain),
    on(AwaitedJobsSeen, awaited_jobs.begin, when=awaited_jobs.is_last_met),
    on(AwaitedJobsSeen, awaited_jobs.note, when=awaited_jobs.waits),
    on(PlanReady, pending.blame_planner, P.FAILED, when=pending.is_not_the_gang),
    on(PlanReady, pending.wait_for_largest, *FAILS, when=pending.is_worth_waiting),
    on(PlanReady, pending.ask_for_gang, P.ACQUIRING),
    on(PlanRefused, pending.lift_blacklist, when=pending.is_blacklist_in_the_way),
    on(PlanRefused, pending.fail_for_ever, P.FAILED, when=pending.is_never),
    on(PlanRefused, pending.wait_for_capacity, *FAILS),
    on(T.PATIENCE, pending.take_what_fits),
    on(T.WAIT, attempts.end_wait, P.FAILED),
    on(AmRestarted, pending.begin, when=pending.is_new),
    on(AmRestarted, pending.plan_again),
    on(SuspendRequested, suspended.suspend, P.SUSPENDED, when=suspended.has_begun),
    HINTS,
    CORDONS,
    SIZE,
    *ENDS,
)

ACQUIRING = (
    on(ContainerGranted, acquiring.give_back, P.ACQUIRING, *FAILS, when=acquiring.is_refused),
    on(
        ContainerGranted,
        acquiring.hold_registered,
        *(P.ACQUIRING, *OPENS, *FAILS),
        when=acquiring.is_asked_and_registered,
    ),
    on(ContainerGranted, acquiring.hold, when=acquiring.is_asked),
    on(AgentRegistered, acquiring.note_agent, when=acquiring.is_asked),
    on(AgentRegistered, acquiring.give_back, P.ACQUIRING, *FAILS, when=acquiring.is_refused),
    on(AgentRegistered, acquiring.make_ready, P.ACQUIRING, *OPENS, when=acquiring.is_granted),
    on(ContainerEnded, acquiring.fail_job_by_container, P.FAILED, when=acquiring.is_not_retried),
    on(ContainerEnded, acquiring.enlarge, *FAILS, when=acquiring.is_short_of_memory),
    on(ContainerEnded, acquiring.replace_ended, P.ACQUIRING, *FAILS),
    on(
        AgentUnable,
        acquiring.fail_job_by_agents,
        P.FAILED,
        when=acquiring.is_repeated_fault_of_job,
    ),
    on(AgentUnable, acquiring.replace_unable, P.ACQUIRING, *FAILS, when=acquiring.is_held),
    on(AgentSilent, acquiring.replace_silent, P.ACQUIRING, *FAILS, when=acquiring.is_held),
    # A member needs another place: what was asked for cannot help.
    on(PlanReady, search.ask_elsewhere, when=search.is_found),
    on(PlanRefused, search.give_up_search, *OPENS, *FAILS, when=search.is_hopeless),
    on(PlanRefused, search.wait_for_place, when=search.is_open),
    on(JitterDrawn, search.wait_until_due, when=search.is_due),
    on(T.BACKOFF, search.search_again),
    # Limits.
    on(T.ASK, acquiring.time_out_ask, *FAILS),
    on(T.HOLD, acquiring.start_with_rest, *OPENS, when=acquiring.rest_may_start),
    on(T.HOLD, acquiring.time_out_hold, *FAILS),
    on(T.LOCALIZE, acquiring.start_with_rest, *OPENS, when=acquiring.rest_may_start),
    on(T.LOCALIZE, acquiring.time_out_localize, *FAILS),
    on(T.WAIT, attempts.end_wait, P.FAILED),
    on(AmRestarted, attempts.start_over, *FAILS),
    on(NodesSuspected, acquiring.take_hints, P.ACQUIRING, *FAILS),
    CORDONS,
    SIZE,
    SUSPEND,
    *ENDS,
)

UNPREPARED = (
    # CHECKING and STAGING: no process runs yet, so a lost member is replaced.
    on(ContainerEnded, acquiring.fail_job_by_container, P.FAILED, when=acquiring.is_not_retried),
    on(ContainerEnded, acquiring.enlarge, *FAILS, when=acquiring.is_short_of_memory),
    on(ContainerEnded, staging.replace_ended, P.ACQUIRING, *FAILS),
    on(
        AgentUnable,
        acquiring.fail_job_by_agents,
        P.FAILED,
        when=acquiring.is_repeated_fault_of_job,
    ),
    on(AgentUnable, staging.replace_unable, P.ACQUIRING, *FAILS),
    on(AgentSilent, staging.replace_silent, P.ACQUIRING, *FAILS),
    on(AmRestarted, attempts.start_over, *FAILS),
)

CHECKING = (
    on(NodeChecked, checking.judge, P.ACQUIRING, *OPENS, *FAILS, when=checking.is_last),
    on(NodeChecked, checking.note, when=checking.is_awaited),
    on(T.CHECK, checking.judge_without, P.ACQUIRING, *OPENS, *FAILS),
    *UNPREPARED,
    on(NodesSuspected, staging.take_hints, P.CHECKING, P.ACQUIRING, *FAILS),
    CORDONS,
    SIZE,
    SUSPEND,
    *ENDS,
)

STAGING = (
    on(TaskStaged, staging.launch, P.LAUNCHING, when=staging.is_last_staged),
    on(TaskStaged, staging.note_staged),
    *UNPREPARED,
    on(T.STAGING, staging.time_out, *FAILS),
    on(NodesSuspected, staging.take_hints, P.STAGING, P.ACQUIRING, *FAILS),
    CORDONS,
    SIZE,
    SUSPEND,
    *ENDS,
)

LAUNCHED = (
    # LAUNCHING and RUNNING: a task ends, or is lost, and the others are stopped.
    on(TaskFailing, running.stop_for_failing, P.STOPPING, when=running.is_failing),
    on(TaskExited, running.stop_for_failure, P.STOPPING, when=running.is_failure),
    on(TaskExited, running.stop_for_early_exit, P.STOPPING, when=running.is_too_early),
    on(TaskExited, running.stop_when_done, P.STOPPING, when=running.is_last_to_end),
    on(TROUBLE, running.note_gone, when=running.has_exited),
    on(TROUBLE, running.stop_for_loss, P.STOPPING, when=running.is_loss),
    on(TROUBLE, running.stop_when_lost, P.STOPPING, when=running.is_last_loss),
    on(ContainersMarked, running.stop_for_preemption, P.STOPPING, when=running.is_marked),
    on(NodeLeaving, running.note_leaving, when=running.is_on_node),
    on(T.LEAVE, running.leave_node, P.STOPPING),
    on(T.TIME_LIMIT, running.stop_at_limit, P.STOPPING),
    on(CancelRequested, running.stop_for_cancel, P.STOPPING),
    on(SuspendRequested, suspended.stop, P.STOPPING),
    on(InputsRefused, running.stop_for_inputs, P.STOPPING),
    on(BrokerFailed, running.fail_broker, P.FAILED),
    on(AmRestarted, am_attempts.adopt, when=am_attempts.is_kept),
    on(AmRestarted, attempts.start_over, *FAILS),
    on(NodesCordoned, running.take_cordons),
    HINTS,
)

LAUNCHING = (
    on(TaskStarted, launching.run, P.RUNNING, when=launching.is_last_to_start),
    on(TaskStarted, launching.start_next, P.LAUNCHING, P.RUNNING, when=launching.is_ready),
    on(TaskReady, launching.ready_next, P.LAUNCHING, P.RUNNING, when=running.is_awaited),
    *LAUNCHED,
    on(TaskExited, launching.run_without, P.RUNNING, when=launching.is_last_up),
    on(TROUBLE, launching.run_without_lost, P.RUNNING, when=launching.is_last_up),
    on(TaskExited, launching.exit_next, P.LAUNCHING, P.RUNNING, when=running.is_running),
    on(TROUBLE, launching.lose_next, P.LAUNCHING, P.RUNNING, when=running.is_there),
    on(T.LAUNCH, launching.time_out, P.STOPPING),
    on(T.READY, launching.time_out_ready, P.STOPPING),
    on(GroupFormed, in_place.note_group, when=in_place.is_newer_group),
    SIZE,
)

RUNNING = (
    # An in-place elastic gang: tasks leave it, and join it, and the others continue.
    on(TaskStarted, in_place.join, when=in_place.is_coming),
    on(TaskFailing, in_place.ignore_failing, when=in_place.is_leaving),
    on(TaskFailing, in_place.fail_to_join, when=in_place.is_coming),
    on(TaskExited, in_place.note_left, when=in_place.is_leaving),
    on(TaskExited, in_place.fail_to_join, when=in_place.is_coming),
    on(TROUBLE, in_place.note_left_lost, when=in_place.is_leaving),
    on(TROUBLE, in_place.go_on_without, when=in_place.is_spared),
    on(ContainersMarked, in_place.leave_preempted, when=in_place.are_spared),
    on(T.LEAVE, in_place.leave_node, when=in_place.may_leave_node),
    on(T.NOTICE, in_place.stop_leaving),
    on(T.STOP, in_place.time_out),
    on(GroupFormed, in_place.note_group, when=in_place.is_newer_group),
    on(T.REFORM, in_place.stop_unformed, P.STOPPING, when=in_place.is_unformed),
    # The containers by which an elastic gang grows.
    on(PlanReady, growth.ask_more, when=growth.is_planned),
    on(PlanReady, growth.give_up_plan, when=growth.is_planning),
    on(PlanRefused, growth.give_up_plan, when=growth.is_planning),
    on(ContainerGranted, growth.give_back, when=growth.is_refused),
    on(
        ContainerGranted,
        growth.hold_registered,
        *(P.RUNNING, P.STOPPING),
        when=growth.is_asked_and_registered,
    ),
    on(ContainerGranted, growth.hold, when=growth.is_asked),
    on(AgentRegistered, growth.note_agent, when=growth.is_asked),
    on(AgentRegistered, growth.give_back, when=growth.is_refused),
    on(AgentRegistered, growth.make_ready, P.RUNNING, P.STOPPING, when=growth.is_granted),
    on(TROUBLE, growth.lose, when=growth.is_joining),
    on(T.GROWTH, growth.time_out),
    # Its size.
    on(T.RESIZE, growth.probe_in_time),
    on(ClusterSeen, growth.take_probe, P.RUNNING, P.STOPPING, when=growth.is_awaited),
    on(
        ScaleRequested,
        growth.take_size,
        *(P.RUNNING, P.STOPPING),
        when=growth.is_another_size,
    ),
    on(TaskReady, running.note_ready, when=running.is_awaited),
    on(GangHung, running.stop_for_hang, P.STOPPING),
    on(StragglersFound, stragglers.stop_to_move, P.STOPPING, when=stragglers.are_to_move),
    on(StragglersFound, stragglers.note),
    on(IdleGpusFound, running.note_idle_gpus),
    on(ConditionChanged, running.note_condition),
    on(LossFlat, running.stop_early, P.STOPPING),
    on(NotebookIdle, running.stop_early, P.STOPPING),
    on(T.PRE_RUN, pre_run.stop_in_time, P.STOPPING),
    *LAUNCHED,
    on(TaskExited, launching.launch_freed, P.LAUNCHING, when=launching.frees_others),
    on(TROUBLE, launching.launch_freed_by_loss, P.LAUNCHING, when=launching.frees_others),
    on(TaskExited, running.note_exit, when=running.is_running),
    on(TROUBLE, running.note_loss, when=running.is_there),
)

STOPPING = (
    on(TaskStarted, launching.note_started, when=launching.is_ready),
    on(TaskExited, stopping.note_exit, when=stopping.is_news),
    on(TROUBLE, growth.lose, when=growth.is_joining),
    on(TROUBLE, running.note_gone, when=running.has_exited),
    on(TROUBLE, stopping.note_loss, when=stopping.is_not_lost),
    on(T.STOP, stopping.time_out),
    on(CancelRequested, stopping.cancel),
    on(InputsRefused, stopping.refuse_inputs, when=stopping.is_undecided),
    on(SuspendRequested, stopping.suspend, when=stopping.is_passing),
    on(BrokerFailed, attempts.fail_broker, P.FAILED),
    on(AmRestarted, attempts.start_over, *FAILS, when=stopping.is_resize),
    on(AmRestarted, stopping.conclude_late),
    HINTS,
    CORDONS,
    SIZE,
    # Every end is known. What was it stopped for, or else: what was the first cause?
    on(AllEnded, concluding.end_cancelled, P.CANCELLED, when=concluding.was_cancelled),
    on(AllEnded, concluding.end_refused, P.FAILED, when=concluding.was_refused),
    on(AllEnded, pre_run.go_on, P.PENDING, when=pre_run.is_over),
    on(AllEnded, pre_run.retry, *FAILS, when=pre_run.is_disturbed),
    on(AllEnded, storing.begin, P.STORING, when=concluding.has_succeeded_with_outputs),
    on(AllEnded, concluding.succeed, P.SUCCEEDED, when=concluding.has_succeeded),
    on(AllEnded, concluding.end_at_limit, P.FAILED, when=concluding.has_timed_out),
    on(AllEnded, suspended.suspend_stopped, P.SUSPENDED, when=suspended.is_to_suspend),
    on(AllEnded, concluding.regroup, *OPENS, when=concluding.is_resized_as_planned),
    on(AllEnded, concluding.leave, *OPENS, *FAILS, when=concluding.has_left),
    on(
        AllEnded,
        stragglers.move,
        *(P.REPLACING, *OPENS, *FAILS),
        when=stragglers.has_been_slowed,
    ),
    on(AllEnded, concluding.restart_preempted, *OPENS, *FAILS, when=concluding.was_preempted),
    on(AllEnded, concluding.fail_job_by_agent, P.FAILED, when=concluding.is_fault_of_job),
    on(AllEnded, concluding.fail_unmet, P.FAILED, when=concluding.is_unmet),
    on(AllEnded, concluding.retry_for_free, *FAILS, when=concluding.is_free_retry),
    on(AllEnded, concluding.retry_for_user, *FAILS, when=concluding.is_user_retry),
    on(AllEnded, concluding.enlarge, *FAILS, when=concluding.is_memory_retry),
    on(
        AllEnded,
        concluding.restart_failed,
        *(P.REPLACING, *OPENS, *FAILS),
        when=concluding.is_restart,
    ),
    on(AllEnded, concluding.fail_job, P.FAILED, when=concluding.has_failed_for_good),
    on(
        AllEnded,
        concluding.restart_unlaunched,
        *(P.REPLACING, *OPENS, *FAILS),
        when=concluding.never_ran,
    ),
    on(AllEnded, concluding.restart, P.REPLACING, *OPENS, *FAILS),
)

REPLACING = (
    on(
        ContainerGranted,
        acquiring.give_back,
        *(P.REPLACING, *OPENS, *FAILS),
        when=acquiring.is_refused,
    ),
    on(
        ContainerGranted,
        acquiring.hold_registered,
        *(P.REPLACING, *OPENS, *FAILS),
        when=acquiring.is_asked_and_registered,
    ),
    on(ContainerGranted, acquiring.hold, when=acquiring.is_asked),
    on(AgentRegistered, acquiring.note_agent, when=acquiring.is_asked),
    on(
        AgentRegistered,
        acquiring.give_back,
        *(P.REPLACING, *OPENS, *FAILS),
        when=acquiring.is_refused,
    ),
    on(AgentRegistered, acquiring.make_ready, P.REPLACING, *OPENS, when=acquiring.is_granted),
    on(ContainerEnded, replacing.give_up_preempted, *OPENS, *FAILS, when=replacing.is_preempted),
    on(ContainerEnded, acquiring.fail_job_by_container, P.FAILED, when=acquiring.is_not_retried),
    on(ContainerEnded, acquiring.enlarge, *FAILS, when=acquiring.is_short_of_memory),
    on(ContainerEnded, acquiring.replace_ended, P.REPLACING, *OPENS, *FAILS),
    on(
        AgentUnable,
        acquiring.fail_job_by_agents,
        P.FAILED,
        when=acquiring.is_repeated_fault_of_job,
    ),
    on(
        AgentUnable,
        acquiring.replace_unable,
        *(P.REPLACING, *OPENS, *FAILS),
        when=acquiring.is_held,
    ),
    on(
        AgentSilent,
        acquiring.replace_silent,
        *(P.REPLACING, *OPENS, *FAILS),
        when=acquiring.is_held,
    ),
    on(PlanReady, search.ask_elsewhere, when=search.is_found),
    on(PlanRefused, search.give_up_search, *OPENS, *FAILS, when=search.is_hopeless),
    on(PlanRefused, search.wait_for_place, when=search.is_open),
    on(JitterDrawn, search.wait_until_due, when=search.is_due),
    on(T.BACKOFF, search.search_again),
    on(T.RECOVERY, replacing.time_out, *OPENS, *FAILS),
    on(T.LOCALIZE, replacing.time_out, *OPENS, *FAILS),
    on(T.WAIT, attempts.end_wait, P.FAILED),
    on(AmRestarted, attempts.start_over, *FAILS),
    on(NodesSuspected, acquiring.take_hints, P.REPLACING, *OPENS, *FAILS),
    CORDONS,
    SIZE,
    SUSPEND,
    *ENDS,
)

STORING = (
    on(OutputsStored, storing.succeed, P.SUCCEEDED),
    on(StoringTroubled, storing.note_trouble, when=storing.goes_on),
    on(StoringFailed, storing.fail, P.FAILED, when=storing.goes_on),
    on(StoringFailed, storing.end_cancelled, P.CANCELLED, when=storing.was_cancelled),
    on(StoringFailed, storing.end_late, P.FAILED),
    on(T.STORE, storing.time_out, when=storing.goes_on),
    on(T.STOP, storing.end_cancelled, P.CANCELLED, when=storing.was_cancelled),
    on(T.STOP, storing.end_late, P.FAILED),
    on(CancelRequested, storing.stop_for_cancel, when=storing.goes_on),
    on(AmRestarted, storing.go_on),
)

BACKING_OFF = (
    on(JitterDrawn, backing_off.wait, when=backing_off.is_undrawn),
    on(T.BACKOFF, backing_off.try_again, P.PENDING),
    on(T.WAIT, attempts.end_wait, P.FAILED),
    on(AmRestarted, backing_off.go_on_waiting),
    HINTS,
    CORDONS,
    SIZE,
    SUSPEND,
    *ENDS,
)

SUSPENDED = (
    on(ResumeRequested, suspended.resume, P.PENDING, when=suspended.may_resume),
    on(T.SUSPENSION, suspended.resume, P.PENDING),
    on(SuspendRequested, suspended.keep, when=suspended.is_taken_over),
    on(AwaitedJobsSeen, awaited_jobs.fail, P.FAILED, when=awaited_jobs.waits_in_vain),
    on(AwaitedJobsSeen, awaited_jobs.note_met, when=awaited_jobs.is_last_met),
    on(AwaitedJobsSeen, awaited_jobs.note, when=awaited_jobs.waits),
    on(AmRestarted, suspended.stay),
    HINTS,
    CORDONS,
    SIZE,
    *ENDS,
)

FINAL = (on(AmRestarted, attempts.finish_again),)

ROWS: Mapping[Phase, tuple[Row, ...]] = {
    P.PENDING: PENDING,
    P.ACQUIRING: ACQUIRING,
    P.CHECKING: CHECKING,
    P.STAGING: STAGING,
    P.LAUNCHING: LAUNCHING,
    P.RUNNING: RUNNING,
    P.STOPPING: STOPPING,
    P.REPLACING: REPLACING,
    P.STORING: STORING,
    P.BACKING_OFF: BACKING_OFF,
    P.SUSPENDED: SUSPENDED,
    P.SUCCEEDED: FINAL,
    P.FAILED: FINAL,
    P.CANCELLED: FINAL,
}

ON_ENTRY: Mapping[Phase, tuple[Callable[[StepContext], None], ...]] = {
    P.RUNNING: (growth.began_to_run, pre_run.began_to_run, running.began_to_run)
}
"""Done at the end of a step that has led to this phase."""

HANDLERS: dict[Phase, Mapping[Key, tuple[Row, ...]]] = {
    phase: {
        key: tuple(row for row in rows if key in row.events)
        for key in dict.fromkeys(key for row in rows for key in row.events)
    }
    for phase, rows in ROWS.items()
}
