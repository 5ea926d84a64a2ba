"""Trains every night, and hands the model's place on HDFS to the next task."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.decorators import dag, task

from yarnam.airflow.job_operator import YarnamJobOperator


@dag(
    schedule="@daily",
    start_date=datetime(2026, 11, 1, tzinfo=timezone.utc),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
)
def train_nightly() -> None:
    train = YarnamJobOperator(
        task_id="train",
        spec={
            "version": 1,
            "name": "ranking",
            "queue": "root.dl",
            "gpus": 8,
            "command": ["python3", "code/train.py", "--day", "{{ ds }}"],
            "code": "/srv/pipelines/ranking",
            "data": {"outputs": "/models/ranking/{{ ds }}"},
        },
        deferrable=True,
    )

    @task
    def publish(model: str) -> None:
        print(f"publishing {model}")

    publish(train.output)


train_nightly()
