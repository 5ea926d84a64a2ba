"""The DAGs of the scenarios. Airflow 3 runs only what it finds in its own folder of DAGs."""

from __future__ import annotations

from datetime import datetime, timezone

try:
    from airflow.sdk import DAG
except ImportError:
    from airflow import DAG

from yarnam.airflow.job_operator import YarnamJobOperator

SPEC = {
    "version": 1,
    "name": "{{ dag.dag_id }}",
    "queue": "root.dl",
    "gpus": 1,
    "command": "true",
    "data": {"outputs": "/results/{{ ds }}"},
}
DAY = datetime(2026, 11, 21, tzinfo=timezone.utc)


def train(name: str, *, deferrable: bool) -> DAG:
    with DAG(name, start_date=DAY, schedule=None) as dag:
        YarnamJobOperator(task_id="train", spec=SPEC, deferrable=deferrable)
    return dag


deferred = train("deferred", deferrable=True)
waiting = train("waiting", deferrable=False)
failed = train("failed", deferrable=True)
