"""Policies over a trace: from what a user names to runs of the simulator, and rows of jobs to a
file."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yarnam.client.data.output_file import output_file
from yarnam.client.monitor.history_exports import write_columns
from yarnam.client.planning.snapshot_file import read_snapshot
from yarnam.core.policies.policy_registry import policy_named
from yarnam.core.policies.policy_settings import Settings, read_settings
from yarnam.errors import UsageError
from yarnam.sim.ideal.ideal_report import IdealRow

MAX_FILE_BYTES = 256 << 10
"""The most bytes of a file with the numbers of a setting: as much as a stored choice holds."""

MOST_START_S = 86400.0

Nodes = tuple[tuple[int, int], ...]
"""GPUs and cores of each node."""


def named_policy(text: str) -> tuple[str, Settings]:
    """``NAME`` or ``NAME:key=value,key=value``; numbers of a list are joined by ``+``, or come from
    a file with ``key=@FILE``. Raises UsageError."""
    name, _, rest = text.partition(":")
    policy = policy_named(name)
    given: dict[str, str] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(
                f"{pair[:40]!a} of {text[:60]!a} is not a setting",
                hint="Write NAME:key=value,key=value, and the numbers of a list with +",
            )
        is_file = value.startswith("@")
        given[key.strip()] = numbers_of(value[1:]) if is_file else value.replace("+", ",")
    return name, read_settings(name, policy.settings, given)


def numbers_of(path: str) -> str:
    """The numbers of a file, apart by commas or blanks, as a list on the command line. Raises
    UsageError."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1).decode("ascii")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"cannot read numbers from {path[:200]!a}: {error}") from error
    if len(text) > MAX_FILE_BYTES:
        raise UsageError(f"{path[:200]!a} has more than {MAX_FILE_BYTES} bytes")
    return ",".join(text.replace(",", " ").split())


def start_costs_of(path: str) -> dict[tuple[str, int], float]:
    """Seconds that a start costs, by model and GPUs, from a CSV with the columns ``model``,
    ``gpus`` and ``start_s``. Raises UsageError."""
    costs: dict[tuple[str, int], float] = {}
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            for number, row in enumerate(csv.DictReader(file), 2):
                try:
                    cost_s = float(row["start_s"])
                    costs[row["model"], int(row["gpus"])] = cost_s
                except (KeyError, TypeError, ValueError) as error:
                    raise UsageError(f"{path}:{number}: not a row of model,gpus,start_s") from error
                if not 0.0 <= cost_s <= MOST_START_S:
                    raise UsageError(f"{path}:{number}: start_s is {cost_s:g}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    return costs


def nodes_of_file(path: str) -> Nodes:
    """The nodes with GPUs of ``yarnam nodes --save``. Raises UsageError."""
    nodes = tuple(
        (node.total.gpus, node.total.vcores)
        for node in read_snapshot(path).nodes
        if node.is_usable and node.total.gpus
    )
    if not nodes:
        raise UsageError(f"{path} has no node with GPUs that runs")
    return nodes


def write_rows(path: Path, rows: Mapping[str, Sequence[IdealRow]]) -> int:
    """Each job under each policy: Parquet, or JSON lines where the name ends in .jsonl. Raises
    UsageError, and BadConfig where pyarrow is not installed."""
    if path.suffix == ".jsonl":
        return _write_lines(path, rows)
    columns: dict[str, list[Any]] = {"policy": []}
    for name in (*IdealRow._fields, "jct_s", "wait_s"):
        columns[name] = [getattr(row, name) for mine in rows.values() for row in mine]
    columns["policy"] = [policy for policy, mine in rows.items() for _ in mine]
    return write_columns(path, columns)


def _write_lines(path: Path, rows: Mapping[str, Sequence[IdealRow]]) -> int:
    count = 0
    with output_file(path) as draft, draft.open("w", encoding="utf-8") as file:
        for policy, mine in rows.items():
            for row in mine:
                file.write(json.dumps({"policy": policy, **row._asdict()}) + "\n")
                count += 1
    return count
