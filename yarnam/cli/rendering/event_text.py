"""Events of the gang machine as text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from yarnam.core.failures.node_judgement import summary
from yarnam.core.model import events as ev
from yarnam.core.model.events import Event
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_status import byte_words
from yarnam.core.model.outcomes import ProcessExit
from yarnam.core.observers.observer_registry import observed_text
from yarnam.errors.exhaustive import assert_never


def event_text(event: Event, names: Mapping[AskId, str] = MappingProxyType({})) -> str:
    """One line, without the time. ``names`` are those of the tasks; see ``task_names``."""
    match event:
        case ev.ContainerGranted() | ev.ContainerEnded() | ev.AgentRegistered():
            return f"{_task(event.ask, names)}: {_of_container(event)}"
        case (
            ev.AgentUnable()
            | ev.AgentSilent()
            | ev.NodeChecked()
            | ev.TaskStaged()
            | ev.TaskStarted()
            | ev.TaskReady()
            | ev.TaskFailing()
            | ev.TaskExited()
        ):
            return f"{_task(event.ask, names)}: {_of_task(event)}"
        case (
            ev.GangHung()
            | ev.StragglersFound()
            | ev.IdleGpusFound()
            | ev.ConditionChanged()
            | ev.LossFlat()
            | ev.NotebookIdle()
        ):
            return observed_text(event)
        case ev.TrainingReported(step=step, saved_step=saved):
            return f"step {step}" + ("" if saved is None else f", checkpoint of step {saved} saved")
        case ev.CheckpointMirrored(number=number, files=files, size=size):
            count = f"{files} file{'' if files == 1 else 's'}"
            return f"set {number} of the mirrored files is kept: {count}, {byte_words(size)}"
        case ev.PlanReady(plan=plan):
            rung = plan.rungs[0]
            return f"plan: rung {rung.number}, {rung.level.name}: {rung.reason}"
        case ev.PlanRefused(no_fit=no_fit):
            when = "never" if no_fit.is_never else "not now"
            return f"no plan ({when}, {no_fit.reason.value}): {no_fit.message}"
        case ev.JobStarted():
            return "the ApplicationMaster started"
        case ev.AmRestarted(am_attempt=number, kept=kept):
            containers = f"; YARN kept {len(kept)} containers" if kept else ""
            return f"AM attempt {number} took over{containers}"
        case ev.JitterDrawn(u=u):
            return f"jitter drawn: {u:.3f}"
        case ev.TimerFired(timer=timer):
            return f"timer {timer} expired"
        case _:
            return _of_job(event, names)


def _task(ask: AskId, names: Mapping[AskId, str]) -> str:
    return names.get(ask, ask.words)


def _marked(event: ev.ContainersMarked, names: Mapping[AskId, str]) -> str:
    if event.by:
        return f"{event.by} interrupted the gang, as if YARN preempted it"
    return f"YARN is about to preempt {', '.join(_task(ask, names) for ask in event.asks)}"


def _of_user(event: ev.CancelRequested | ev.SuspendRequested | ev.ResumeRequested) -> str:
    if isinstance(event, ev.ResumeRequested):
        return f"resumed by {event.by}"
    done = "cancelled" if isinstance(event, ev.CancelRequested) else "suspended"
    return f"{done} by {event.by}" + (f": {event.reason}" if event.reason else "")


def _of_size(event: ev.ScaleRequested | ev.ClusterSeen | ev.GroupFormed) -> str:
    if isinstance(event, ev.GroupFormed):
        return f"the framework formed group {event.number}, of {_tasks(event.tasks)}"
    if isinstance(event, ev.ScaleRequested):
        return f"{event.by} requested {_tasks(event.tasks) if event.tasks else 'automatic size'}"
    over = f", {_tasks(event.excess)} above the queue's share" if event.excess else ""
    over += f", {event.outranked} of higher priority" if event.outranked else ""
    room = f"{_tasks(event.spare)} more fit{'s' if event.spare == 1 else ''}"
    return f"cluster checked: {room}, {event.waiting} jobs waiting{over}"


def _of_job(  # noqa: RET503 - assert_never does not return
    event: ev.NodesSuspected
    | ev.NodesCordoned
    | ev.ContainersMarked
    | ev.NodeLeaving
    | ev.ScaleRequested
    | ev.ClusterSeen
    | ev.GroupFormed
    | ev.CancelRequested
    | ev.SuspendRequested
    | ev.ResumeRequested
    | ev.InputsRefused
    | ev.AwaitedJobsSeen
    | ev.SessionBegun
    | ev.SessionClosed
    | ev.BrokerFailed
    | ev.OutputsStored
    | ev.StoringTroubled
    | ev.StoringFailed,
    names: Mapping[AskId, str],
) -> str:
    match event:
        case ev.NodesCordoned(nodes=cordoned):
            shown = ", ".join(f"{one.node} ({one.why})" for one in cordoned)
            return f"nodes closed to gangs: {shown or 'none'}"
        case ev.NodesSuspected(nodes=nodes):
            return f"other jobs reported problems with {', '.join(nodes)}"
        case ev.ContainersMarked():
            return _marked(event, names)
        case ev.NodeLeaving(node=node, timeout_s=timeout_s):
            return f"{node} leaves the cluster in {timeout_s:.0f} s"
        case ev.ScaleRequested() | ev.ClusterSeen() | ev.GroupFormed():
            return _of_size(event)
        case ev.CancelRequested() | ev.SuspendRequested() | ev.ResumeRequested():
            return _of_user(event)
        case ev.InputsRefused(message=message):
            return f"inputs refused: {message}"
        case ev.AwaitedJobsSeen(jobs=jobs):
            return f"waits for {', '.join(job.words for job in jobs)}"
        case ev.SessionBegun() | ev.SessionClosed():
            return _of_session(event, names)
        case ev.BrokerFailed(message=message):
            return f"connection to YARN failed: {message}"
        case ev.OutputsStored() | ev.StoringTroubled() | ev.StoringFailed():
            return _of_storing(event)
        case _:
            assert_never(event)


def _of_session(event: ev.SessionBegun | ev.SessionClosed, names: Mapping[AskId, str]) -> str:
    task = names.get(event.target, str(event.target))
    if isinstance(event, ev.SessionBegun):
        what = f": {event.what}" if event.what else ""
        return f"{event.by} opened session {event.session} in {task}, {event.kind}{what}"
    return f"session {event.session} in {task} ended after {event.lasted_s:.1f} s: {event.outcome}"


def _of_storing(event: ev.OutputsStored | ev.StoringTroubled | ev.StoringFailed) -> str:
    if isinstance(event, ev.OutputsStored):
        return f"outputs stored: {event.files} files, {byte_words(event.size_bytes)}"
    how = "is delayed" if isinstance(event, ev.StoringTroubled) else "failed"
    return f"storing the outputs {how}: {event.message}"


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _of_container(  # noqa: RET503
    event: ev.ContainerGranted | ev.ContainerEnded | ev.AgentRegistered,
) -> str:
    match event:
        case ev.ContainerGranted():
            return f"granted on {event.node} ({event.rack}), {event.container}"
        case ev.ContainerEnded():
            why = f": {event.diagnostics}" if event.diagnostics else ""
            return f"container {event.end.value}{why}"
        case ev.AgentRegistered():
            gpus = ",".join(event.gpu_ids) or "none"
            return f"agent ready on {event.node}, GPUs {gpus}"
        case _:
            assert_never(event)


def _of_task(  # noqa: RET503
    event: ev.AgentUnable
    | ev.AgentSilent
    | ev.NodeChecked
    | ev.TaskStaged
    | ev.TaskStarted
    | ev.TaskReady
    | ev.TaskFailing
    | ev.TaskExited,
) -> str:
    match event:
        case ev.AgentUnable():
            return f"agent could not prepare its task: {event.message}"
        case ev.AgentSilent():
            return f"agent silent for {event.silent_s:.1f} s"
        case ev.NodeChecked(measures=measures):
            parts = (summary([measures]), *measures.trouble, *measures.not_run)
            return f"node checked: {'; '.join(part for part in parts if part)}"
        case ev.TaskStaged():
            return "inputs staged"
        case ev.TaskStarted():
            return "all processes started"
        case ev.TaskReady():
            return "ready for the roles that start after it"
        case ev.TaskFailing():
            return f"a process failed: {_ends(event.exits)}"
        case ev.TaskExited():
            return f"processes ended: {_ends(event.exits)}"
        case _:
            assert_never(event)


def _ends(exits: tuple[ProcessExit, ...]) -> str:
    return ", ".join(
        f"{one.local_rank} {one.kind.value}"
        + (f" {one.code or one.signal}" if one.code or one.signal else "")
        for one in exits
    )
