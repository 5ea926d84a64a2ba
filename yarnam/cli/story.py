"""Events of the gang machine in words."""

from __future__ import annotations

from yarnam.model import events as ev
from yarnam.model.events import Event
from yarnam.model.exhaustive import assert_never
from yarnam.model.status import byte_words


def in_words(event: Event) -> str:  # noqa: RET503 - assert_never does not return
    """One line, without the time."""
    match event:
        case ev.ContainerGranted() | ev.ContainerEnded() | ev.AgentRegistered():
            return _of_container(event)
        case (
            ev.AgentUnable()
            | ev.AgentSilent()
            | ev.TaskStaged()
            | ev.TaskStarted()
            | ev.TaskExited()
        ):
            return _of_task(event)
        case ev.PlanReady(plan=plan):
            rung = plan.rungs[0]
            return f"plan: rung {rung.number}, {rung.level.name}: {rung.reason}"
        case ev.PlanRefused(no_fit=no_fit):
            when = "never" if no_fit.is_never else "not now"
            return f"no plan ({when}, {no_fit.reason.value}): {no_fit.message}"
        case ev.JobStarted():
            return "the ApplicationMaster started"
        case ev.AmRestarted(am_attempt=number):
            return f"AM attempt {number} took over"
        case ev.JitterDrawn(u=u):
            return f"jitter drawn: {u:.3f}"
        case ev.TimerFired(timer=timer):
            return f"timer {timer} ran out"
        case ev.NodesSuspected() | ev.ScaleRequested() | ev.ClusterSeen():
            return _of_others(event)
        case ev.CancelRequested() | ev.InputsRefused() | ev.BrokerFailed():
            return _of_ends(event)
        case ev.OutputsStored() | ev.StoringTroubled() | ev.StoringFailed():
            return _of_outputs(event)
        case _:
            assert_never(event)


def _of_ends(  # noqa: RET503
    event: ev.CancelRequested | ev.InputsRefused | ev.BrokerFailed,
) -> str:
    match event:
        case ev.CancelRequested(by=by, reason=reason):
            return f"cancelled by {by}" + (f": {reason}" if reason else "")
        case ev.InputsRefused(message=message):
            return f"refused because of its inputs: {message}"
        case ev.BrokerFailed(message=message):
            return f"the way to YARN is broken: {message}"
        case _:
            assert_never(event)


def _of_others(  # noqa: RET503
    event: ev.NodesSuspected | ev.ScaleRequested | ev.ClusterSeen,
) -> str:
    match event:
        case ev.NodesSuspected(nodes=nodes):
            return f"other jobs had trouble with {', '.join(nodes)}"
        case ev.ScaleRequested(by=by, tasks=tasks):
            return f"{by} wished for {_tasks(tasks) if tasks else 'no size in particular'}"
        case ev.ClusterSeen(excess=excess):
            over = f", {_tasks(excess)} over the queue's share" if excess else ""
            room = f"room for {_tasks(event.spare)} more"
            return f"looked around: {room}, {event.waiting} waiting{over}"
        case _:
            assert_never(event)


def _of_outputs(  # noqa: RET503
    event: ev.OutputsStored | ev.StoringTroubled | ev.StoringFailed,
) -> str:
    match event:
        case ev.OutputsStored(files=files, size_bytes=size):
            return f"outputs stored: {files} files, {byte_words(size)}"
        case ev.StoringTroubled(message=message):
            return f"storing the outputs takes longer: {message}"
        case ev.StoringFailed(message=message):
            return f"the outputs are not stored: {message}"
        case _:
            assert_never(event)


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _of_container(  # noqa: RET503
    event: ev.ContainerGranted | ev.ContainerEnded | ev.AgentRegistered,
) -> str:
    match event:
        case ev.ContainerGranted():
            return f"{event.ask}: granted on {event.node} ({event.rack}), {event.container}"
        case ev.ContainerEnded():
            why = f": {event.diagnostics}" if event.diagnostics else ""
            return f"{event.ask}: container {event.end.value}{why}"
        case ev.AgentRegistered():
            gpus = ",".join(event.gpu_ids) or "none"
            return f"{event.ask}: agent ready on {event.node}, GPUs {gpus}"
        case _:
            assert_never(event)


def _of_task(  # noqa: RET503
    event: ev.AgentUnable | ev.AgentSilent | ev.TaskStaged | ev.TaskStarted | ev.TaskExited,
) -> str:
    match event:
        case ev.AgentUnable():
            return f"{event.ask}: agent cannot make its task ready: {event.message}"
        case ev.AgentSilent():
            return f"{event.ask}: agent not heard of for {event.silent_s:.1f} s"
        case ev.TaskStaged():
            return f"{event.ask}: has its inputs"
        case ev.TaskStarted():
            return f"{event.ask}: all processes run"
        case ev.TaskExited():
            ends = ", ".join(
                f"{one.local_rank} {one.kind.value}"
                + (f" {one.code or one.signal}" if one.code or one.signal else "")
                for one in event.exits
            )
            return f"{event.ask}: processes ended: {ends}"
        case _:
            assert_never(event)
