"""Which task a session is opened in."""

from __future__ import annotations

from typing import NamedTuple

from yarnam.core.model.job_status import JobStatus
from yarnam.errors import UsageError


class ChosenTask(NamedTuple):
    """One process of a task: a command gets its environment."""

    name: str
    ask: str
    local_rank: int


def choose_task(status: JobStatus, task: str | None, rank: int | None) -> ChosenTask:
    """The named task, that of this global rank, or that of rank 0. Raises UsageError."""
    launched = [one for one in status.tasks if one.ranks]
    if not launched:
        raise UsageError(
            f"{status.application} has no process now: it is {status.state.value}"
            + (f" ({status.reason})" if status.reason else ""),
            hint=f"To see when it has: yarnam watch {status.application}",
        )
    ranks = {rank: one for one in launched for rank in one.ranks}
    named = {one.name: one for one in launched}
    if rank is not None and rank not in ranks:
        raise UsageError(f"there is no rank {rank}", hint=f"The ranks are 0 to {max(ranks)}.")
    if task is not None and task not in named:
        names = ", ".join(named)
        raise UsageError(f"there is no task {task}", hint=f"The tasks are: {names}")
    if rank is not None:
        found = ranks[rank]
        if task not in (None, found.name):
            raise UsageError(f"rank {rank} is in {found.name}, not in {task}")
        return ChosenTask(found.name, found.ask, found.ranks.index(rank))
    found = named[task] if task is not None else ranks[min(ranks)]
    return ChosenTask(found.name, found.ask, 0)


def all_tasks(status: JobStatus) -> list[ChosenTask]:
    """Each task that has processes, in the order of their ranks. Raises UsageError: none has."""
    choose_task(status, None, None)
    launched = sorted((one for one in status.tasks if one.ranks), key=lambda one: one.ranks)
    return [ChosenTask(one.name, one.ask, 0) for one in launched]
