"""Waits for a job in Airflow's triggerer, where a waiting task holds no worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.triggers.base import BaseTrigger, TriggerEvent
from airflow.utils.session import provide_session
from airflow.utils.state import TaskInstanceState

from yarnam.airflow.yarnam_hook import YarnamHook, shared_async_client
from yarnam.core.model.outcomes import Verdict
from yarnam.wire.codec import from_plain, to_plain


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
        """One event: the verdict, as ``verdict_in`` reads it."""
        settings = await asyncio.to_thread(YarnamHook(self.yarnam_conn_id).settings)
        job = await shared_async_client(*settings).job(self.application)
        try:
            verdict = await job.wait()
        except asyncio.CancelledError:
            if await asyncio.to_thread(self._is_task_over):
                await job.kill("its Airflow task was ended")
            raise
        yield TriggerEvent({"application": self.application, "verdict": to_plain(verdict)})

    def _is_task_over(self) -> bool:
        """Whether somebody has ended the task, as opposed to the triggerer."""
        task = getattr(self, "task_instance", None)
        return task is not None and _state_of(task) != TaskInstanceState.DEFERRED


@provide_session
def _state_of(task: Any, session: Any = None) -> Any:
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


def verdict_in(event: dict[str, Any]) -> Verdict:
    """The verdict that a trigger has sent. Raises WireMismatch."""
    return from_plain(event["verdict"], Verdict)
