"""Runs a job as a task of an Airflow DAG."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from airflow.configuration import conf

from yarnam.airflow.airflow_names import AirflowException, AirflowFailException, BaseOperator
from yarnam.airflow.job_trigger import TASK_ENDED, YarnamJobTrigger, failure_in, verdict_in
from yarnam.airflow.yarnam_hook import YarnamHook
from yarnam.client import Client, Job, error_of
from yarnam.core.model.outcomes import Verdict
from yarnam.core.model.printable import printable
from yarnam.errors import Blame, PathTaken, UserFailed, YarnamError


class YarnamJobOperator(BaseOperator):
    """Submits a job and waits for its end. The task's result (XCom) is the URI of the job's output,
    or None; the XCom ``application`` is YARN's application id.

    A task whose worker was lost while it submitted finds its job again. A retry after a failure,
    and a task that was cleared, start another job.

    Args:
        spec: a path to a YAML file, YAML text, or a mapping; rendered as a template.
        yarn_queue, job_name, tags: ``queue``, ``name`` and ``tags`` of ``Client.submit``. (An
            operator's own ``queue`` is that of Airflow's workers.)
        yarnam_conn_id: the Airflow connection, see ``YarnamHook``.
        deferrable: wait in the triggerer, without a worker. Default: Airflow's own setting.
    """

    template_fields: Sequence[str] = ("spec", "yarn_queue", "job_name", "tags")
    ui_color = "#dbeaf7"

    def __init__(
        self,
        *,
        spec: str | os.PathLike[str] | Mapping[str, Any],
        yarn_queue: str | None = None,
        job_name: str | None = None,
        tags: Sequence[str] = (),
        yarnam_conn_id: str = YarnamHook.default_conn_name,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.yarn_queue = yarn_queue
        self.job_name = job_name
        self.tags = tags
        self.yarnam_conn_id = yarnam_conn_id
        default = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = default if deferrable is None else deferrable
        self._job: Job | None = None

    def execute(self, context: Any) -> str | None:
        """Submit; wait here, or leave the waiting to the trigger."""
        task = context["ti"]
        with _airflow_errors(), YarnamHook(self.yarnam_conn_id).get_conn() as client:
            self._job = job = self._submitted(client, task)
            self.log.info("%s", job.id)
            task.xcom_push(key="application", value=job.id)
            if not self.deferrable:
                return self._result(job, job.wait())
        self.defer(
            trigger=YarnamJobTrigger(job.id, self.yarnam_conn_id),
            method_name="execute_complete",
            timeout=self.execution_timeout,
        )
        return None

    def execute_complete(self, context: Any, event: dict[str, Any]) -> str | None:
        """Airflow calls this with the trigger's event: the verdict, or why there is none."""
        if (failure := failure_in(event)) is not None:
            # A retry finds the job, which still runs.
            raise AirflowException(failure)
        with _airflow_errors(), YarnamHook(self.yarnam_conn_id).get_conn() as client:
            return self._result(client.job(event["application"]), verdict_in(event))

    def on_kill(self) -> None:
        """The task is ended while it waits here: so is its job."""
        if self._job is not None:
            self._job.kill(TASK_ENDED)

    def _submitted(self, client: Client, task: Any) -> Job:
        """The job of this try: one that still lives, else a new one. What has ended belongs to an
        earlier try."""
        run = f"airflow/{task.dag_id}/{task.run_id}/{task.task_id}/{task.map_index}"
        for number in count(1):
            key = f"{run}/{number}"
            earlier = client.submitted(key)
            if earlier is None:
                break
            if earlier.status().verdict is None:
                return earlier
        return client.submit(
            self.spec,
            queue=self.yarn_queue,
            name=self.job_name,
            tags=self.tags,
            idempotency_key=key,
        )

    def _result(self, job: Job, verdict: Verdict) -> str | None:
        error = error_of(verdict, job.id)
        if error is not None:
            raise error
        return job.record().job.output or None


@contextmanager
def _airflow_errors() -> Iterator[None]:
    """Errors of yarnam leave as Airflow's, which say whether another try can help."""
    try:
        yield
    except YarnamError as error:
        raise _as_airflow(error) from error


def _as_airflow(error: YarnamError) -> AirflowException:
    """Whose fault a new try cannot mend fails the task without one; code that fails may be given
    another."""
    passes = isinstance(error, (UserFailed, PathTaken))  # the other job ends
    is_hopeless = error.blame is Blame.USER and not passes
    kind = AirflowFailException if is_hopeless else AirflowException
    return kind(printable(str(error)))
