"""Runs in a virtual environment with Apache Airflow: DAGs on its SQLite database, real operators
and triggers, and a cluster of fakes behind them. Prints one JSON object."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from airflow.providers_manager import ProvidersManager
from airflow.utils.session import create_session

try:
    from airflow.models.xcom import XComModel
    from airflow.sdk import DAG
    from airflow.sdk.exceptions import TaskDeferred
    from airflow.sdk.module_loading import import_string
    from airflow.serialization.serialized_objects import DagSerialization

    IS_AIRFLOW_2 = False
except ImportError:
    from airflow import DAG
    from airflow.exceptions import TaskDeferred
    from airflow.models import XCom
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization
    from airflow.utils.module_loading import import_string

    IS_AIRFLOW_2 = True

from tests.setup import airflow_dags
from tests.setup.airflow_dags import DAY, SPEC
from tests.unit.client.world import World, verdict
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.airflow import yarnam_hook
from yarnam.airflow.job_operator import YarnamJobOperator
from yarnam.airflow.job_trigger import YarnamJobTrigger
from yarnam.client import async_client
from yarnam.client.user_paths import key_in
from yarnam.core.model.outcomes import VerdictKind
from yarnam.wire.codec import encode


class Cluster:
    """Each job ends after it was looked at a few times, as told."""

    def __init__(self, kind: VerdictKind = VerdictKind.SUCCEEDED, code: int = 0) -> None:
        self.world = World(Path(tempfile.mkdtemp()))
        self.looks: dict[str, int] = {}
        self.ends_as = (kind, code)
        self.world.rm.on_look = self._look
        yarnam_hook.site_at = lambda conf_dir, user: self.world.site
        yarnam_hook.shared_async_client.cache_clear()

    def _look(self, app: YarnApplication) -> None:
        self.looks[app.application] = self.looks.get(app.application, 0) + 1
        if self.looks[app.application] == 4 and not app.is_over:
            self.end(app)

    def end(self, app: YarnApplication) -> None:
        kind, code = self.ends_as
        self.world.put(key_in(app.tags) or "", "verdict.json", encode(verdict(kind, code, "why")))
        self.world.rm.change(app.application, state="FINISHED", final_status=kind.name)


def run(dag: DAG, cluster: Cluster) -> dict[str, Any]:
    DagSerialization.to_dict(dag)
    dag_run = dag.test(**{"execution_date" if IS_AIRFLOW_2 else "logical_date": DAY})
    (task,) = dag_run.get_task_instances()
    return {
        "state": str(getattr(task.state, "value", task.state)),
        "output": xcom(task, "return_value"),
        "app": xcom(task, "application"),
        "apps": sorted(cluster.world.rm.apps),
    }


def xcom(task: Any, key: str) -> Any:
    with create_session() as session:
        if IS_AIRFLOW_2:
            return XCom.get_value(ti_key=task.key, key=key, session=session)
        found = XComModel.get_many(
            run_id=task.run_id, key=key, task_ids=task.task_id, dag_ids=task.dag_id
        )
        rows = session.scalars(found).all()
        return rows[0].value if rows else None


def lost_worker() -> dict[str, Any]:
    """The same task executed twice while its job lives, and once after its job has failed."""
    cluster = Cluster(VerdictKind.FAILED, 90)
    cluster.looks["application_1700000000000_0001"] = -1000
    with DAG("lost", start_date=DAY, schedule=None):
        operator = YarnamJobOperator(
            task_id="train", spec={**SPEC, "name": "a", "data": {}}, deferrable=True
        )
    task = MagicMock(dag_id="lost", run_id="r", task_id="train", map_index=-1)
    found = []
    for _ in range(3):
        try:
            operator.execute({"ti": task})
        except TaskDeferred as deferred:
            found.append(deferred.trigger.application)
        if len(found) == 2:
            cluster.end(cluster.world.rm.apps[found[0]])
    return {"apps": found}


def kill() -> list[str]:
    cluster = Cluster()
    with DAG("kill", start_date=DAY, schedule=None):
        operator = YarnamJobOperator(task_id="train", spec={**SPEC, "name": "a", "data": {}})
    task = MagicMock(dag_id="kill", run_id="r", task_id="train", map_index=-1)
    with yarnam_hook.YarnamHook().get_conn() as client:
        operator._job = operator._submitted(client, task)
        operator.on_kill()
    return cluster.world.rm.killed


def kill_deferred() -> list[str]:
    """Somebody ends the task while the trigger waits for its job."""
    cluster = Cluster()
    with yarnam_hook.YarnamHook().get_conn() as client:
        job = client.submit({**SPEC, "name": "a", "data": {}})
    asyncio.run(YarnamJobTrigger(job.id, "yarnam_default").on_kill())
    return cluster.world.rm.killed


def errors() -> dict[str, Any]:
    """What goes wrong outside a job, as Airflow gets it: the kind of its exception and the text."""
    Cluster()
    with DAG("errors", start_date=DAY, schedule=None):
        wrong = YarnamJobOperator(task_id="wrong", spec={**SPEC, "name": "a", "quue": "q"})
        lost = YarnamJobOperator(task_id="lost", spec={**SPEC, "name": "a"})
    task = MagicMock(dag_id="errors", run_id="r", task_id="train", map_index=-1)

    async def event() -> dict[str, Any]:
        async for one in YarnamJobTrigger("application_1_9", "yarnam_default").run():
            return dict(one.payload)
        raise AssertionError("a trigger always fires")

    calls = {
        "a spec": lambda: wrong.execute({"ti": task}),
        "a job that cannot be watched": lambda: lost.execute_complete({}, asyncio.run(event())),
        "an extra": lambda: YarnamJobOperator(
            task_id="listed", spec={**SPEC, "name": "a"}, yarnam_conn_id="listed"
        ).execute({"ti": task}),
    }
    found = {}
    for name, call in calls.items():
        try:
            call()
        except Exception as error:
            found[name] = (type(error).__name__, str(error))
    return found


def main() -> None:
    async_client.POLL_S = 0.05
    trigger = YarnamJobTrigger("application_1_1", "yarnam_default")
    path, arguments = trigger.serialize()
    print(
        json.dumps(
            {
                "hook": ProvidersManager().hooks["yarnam"].hook_class_name,  # type: ignore[union-attr]
                "settings": yarnam_hook.YarnamHook().settings(),
                "trigger": import_string(path)(**arguments).serialize() == trigger.serialize(),
                "deferred": run(airflow_dags.deferred, Cluster()),
                "waiting": run(airflow_dags.waiting, Cluster()),
                "failed": run(airflow_dags.failed, Cluster(VerdictKind.FAILED, 90)),
                "lost worker": lost_worker(),
                "errors": errors(),
                "killed": kill(),
                "killed while deferred": kill_deferred(),
            }
        ),
        file=sys.__stdout__,
    )


if __name__ == "__main__":
    main()
