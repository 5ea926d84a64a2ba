"""Waits for a job in Airflow's triggerer, where a waiting task holds no worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from yarnam.airflow.yarnam_hook import YarnamHook, shared_async_client
from yarnam.client import AsyncJob
from yarnam.core.model.outcomes import Verdict
from yarnam.core.model.printable import printable
from yarnam.errors import YarnamError
from yarnam.wire.codec import from_plain, to_plain

TASK_ENDED = "its Airflow task was ended"
"""Why the job is killed."""

_CALLS_ON_KILL = hasattr(BaseTrigger, "on_kill")
"""Airflow 2 cancels a trigger whoever ended what; which it was is in its database."""


class YarnamJobTrigger(BaseTrigger):
    """Fires when the job has ended, with its verdict. A task that is cleared or marked while it is
    deferred ends its job; a triggerer that restarts does not.

    Args:
        application: YARN's application id.
        yarnam_conn_id: the Airflow connection.
    """

    def __init__(self, application: str, yarnam_conn_id: str) -> None:
        super().__init__()
        self.application = application
        self.yarnam_conn_id = yarnam_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """For Airflow's database."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {"application": self.application, "yarnam_conn_id": self.yarnam_conn_id},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: the verdict, as ``verdict_in`` reads it, or why the job cannot be watched."""
        try:
            job = await self._job()
            verdict = await job.wait()
        except YarnamError as error:
            # Raised, it would be a traceback of the triggerer's.
            yield TriggerEvent({"application": self.application, "failure": str(error)})
            return
        except asyncio.CancelledError:
            if not _CALLS_ON_KILL and await asyncio.to_thread(self._is_task_over):
                await (await self._job()).kill(TASK_ENDED)
            raise
        yield TriggerEvent({"application": self.application, "verdict": to_plain(verdict)})

    async def on_kill(self) -> None:
        """Somebody has ended the task, so its job ends. Airflow 3 calls this."""
        await (await self._job()).kill(TASK_ENDED)

    async def _job(self) -> AsyncJob:
        settings = await asyncio.to_thread(YarnamHook(self.yarnam_conn_id).settings)
        return await shared_async_client(*settings).job(self.application)

    def _is_task_over(self) -> bool:
        """Whether somebody has ended the task, as opposed to the triggerer."""
        task = getattr(self, "task_instance", None)
        return task is not None and _state_of(task) != "deferred"


def _state_of(task: Any) -> Any:
    # Airflow 3 has no database in its triggerer.
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    with create_session() as session:
        return (
            session.query(TaskInstance.state)
            .filter(
                TaskInstance.dag_id == task.dag_id,
                TaskInstance.task_id == task.task_id,
                TaskInstance.run_id == task.run_id,
                TaskInstance.map_index == task.map_index,
            )
            .scalar()
        )


def failure_in(event: dict[str, Any]) -> str | None:
    """Why the trigger could not watch the job."""
    found = event.get("failure")
    return None if found is None else printable(str(found))


def verdict_in(event: dict[str, Any]) -> Verdict:
    """The verdict that a trigger has sent. Raises WireMismatch."""
    return from_plain(event["verdict"], Verdict)
