"""Metrics of training code as an Arrow table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.errors import BadConfig

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("time", "application", "attempt", "task", "ranks", "step", "metric", "value")


def metrics_table(statuses: Iterable[JobStatus]) -> pa.Table:
    """One row for each metric of each task in each status: ``time`` (UTC, to the microsecond; when
    the status was taken), ``application``, ``attempt``, ``task``, ``ranks`` (global), ``step``
    (null: not reported), ``metric``, ``value``.

    A status has the last values alone; a table of a whole run comes from ``Job.watch``::

        table = metrics_table(job.watch())

    Raises BadConfig without pyarrow.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise BadConfig(
            "a table of metrics needs pyarrow", hint="pip install 'yarnam[arrow]'"
        ) from error
    schema = pa.schema(
        [
            ("time", pa.timestamp("us", tz="UTC")),
            ("application", pa.string()),
            ("attempt", pa.int32()),
            ("task", pa.string()),
            ("ranks", pa.list_(pa.int32())),
            ("step", pa.int64()),
            ("metric", pa.string()),
            ("value", pa.float64()),
        ]
    )
    rows = [row for status in statuses for row in _rows(status)]
    return pa.Table.from_pylist(rows, schema=schema)


def _rows(status: JobStatus) -> Iterator[dict[str, Any]]:
    if status.state is JobState.PRE_RUN:
        return  # its steps are not the job's
    for task in status.tasks:
        for name, value in (*task.metrics, *task.usage):
            cells = (
                round(status.at_s * 1e6),
                status.application,
                status.attempt,
                task.task,
                list(task.ranks),
                task.step,
                name,
                value,
            )
            yield dict(zip(COLUMNS, cells, strict=True))
