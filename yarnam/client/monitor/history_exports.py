"""Ended jobs as files for other tools: Parquet, and the JSON of the Philly trace."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from yarnam.client.data.output_file import output_file
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import COLUMNS, JobSummary
from yarnam.core.accounting.philly import philly_job
from yarnam.core.accounting.usage import UsageRow
from yarnam.errors import BadConfig


def write_summaries(path: Path, rows: Sequence[JobSummary]) -> int:
    """One row for each job, a column for each field, and ``ettr``; how many. Raises UsageError,
    and BadConfig where pyarrow is not installed."""
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    columns["ettr"] = [row.ettr for row in rows]
    return write_columns(path, columns)


def write_usage(path: Path, by: Sequence[str], rows: Sequence[UsageRow]) -> int:
    """One row for each group; the causes as a list. Raises as ``write_summaries``."""
    plain: list[dict[str, Any]] = [
        {
            **dict(zip(by, row.group, strict=True)),
            **asdict(row.total),
            "ettr": row.total.ettr,
            "causes": [asdict(cause) for cause in row.causes],
        }
        for row in rows
    ]
    names = plain[0] if plain else {}
    return write_columns(path, {name: [one[name] for one in plain] for name in names})


def write_philly(path: Path, records: Iterable[HistoryRecord]) -> int:
    """An array of jobs, as ``cluster_job_log`` has them; how many. Raises UsageError."""
    count = 0
    with output_file(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.write("[")
        for record in records:
            file.write(",\n" if count else "\n")
            file.write(json.dumps(philly_job(record)))
            count += 1
        file.write("\n]\n")
    return count


def write_columns(path: Path, columns: dict[str, list[Any]]) -> int:
    """A Parquet file; how many rows. Raises as ``write_summaries``."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise BadConfig(
            "Parquet files need pyarrow, which is not installed",
            hint="pip install 'yarnam[arrow]'",
        ) from error
    table = pa.table(columns)
    with output_file(path) as draft:
        parquet.write_table(table, draft)
    return int(table.num_rows)
