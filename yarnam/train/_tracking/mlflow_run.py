"""The job's run in MLflow. Found again by the application's id, so that a job has one run."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yarnam.train._tracking.metric_point import Point

APPLICATION_TAG = "yarnam.application"
STEP_TAG = "yarnam.step"
"""The last step that was sent: a later attempt continues behind it."""

MAX_METRICS = 1000
MAX_PARAMETERS = 100
"""The most parameters of one request."""
MAX_VALUE = 6000
"""The most characters of a parameter."""
_NOT_IN_NAMES = re.compile(r"[^\w\-. :/]")


class MlflowRun:
    """A run of the experiment ``MLFLOW_EXPERIMENT_NAME``, else of MLflow's default one. Raises
    MlflowException, as all calls do."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._client = MlflowClient()
        run = self._run()
        self._id = run.info.run_id
        self._sent_step = int(run.data.tags.get(STEP_TAG, -1))
        known = run.data.params
        new = [
            Param(_NOT_IN_NAMES.sub("_", str(name)), str(value)[:MAX_VALUE])
            for name, value in parameters.items()
            if _NOT_IN_NAMES.sub("_", str(name)) not in known
        ]
        for start in range(0, len(new), MAX_PARAMETERS):
            self._client.log_batch(self._id, params=new[start : start + MAX_PARAMETERS])

    def write(self, points: Sequence[Point]) -> None:
        """MLflow keeps one of two equal values: a batch may be sent again."""
        metrics = [
            Metric(_NOT_IN_NAMES.sub("_", one.name), one.value, int(one.at_s * 1000), one.step)
            for one in points
            if one.step > self._sent_step
        ]
        if not metrics:
            return
        last = max(metric.step for metric in metrics)
        for start in range(0, len(metrics), MAX_METRICS):
            self._client.log_batch(self._id, metrics=metrics[start : start + MAX_METRICS])
        # It follows the values: a process that is killed in between sends some of them twice, and
        # misses none.
        self._client.log_batch(self._id, tags=[RunTag(STEP_TAG, str(last))])

    def close(self, end: str) -> None:
        self._client.set_terminated(self._id, end)

    def _run(self) -> Any:
        client, experiment = self._client, self._experiment()
        application = os.environ.get("YARNAM_APPLICATION_ID", "")
        tags = {}
        if application:
            tags[APPLICATION_TAG] = application
            found = client.search_runs(
                [experiment], f"tags.`{APPLICATION_TAG}` = '{application}'", max_results=1
            )
            if found:
                client.update_run(found[0].info.run_id, status="RUNNING")
                return found[0]
        name = os.environ.get("YARNAM_JOB_NAME") or None
        return client.create_run(experiment, tags=tags, run_name=name)

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "Default")
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException:
                # Another job has made it meanwhile.
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)
