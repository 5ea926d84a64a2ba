"""Policies over a trace: from what a user names to runs of the simulator, and rows of jobs to a
file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yarnam.client.monitor.history_exports import write_columns
from yarnam.client.planning.snapshot_file import read_snapshot
from yarnam.core.policies.policy_registry import policy_named
from yarnam.core.policies.policy_settings import Settings, read_settings
from yarnam.errors import UsageError
from yarnam.sim.ideal.ideal_report import IdealRow

Nodes = tuple[tuple[int, int], ...]
"""GPUs and cores of each node."""


def named_policy(text: str) -> tuple[str, Settings]:
    """``NAME`` or ``NAME:key=value,key=value``; numbers of a list are joined by ``+``. Raises
    UsageError."""
    name, _, rest = text.partition(":")
    policy = policy_named(name)
    given: dict[str, str] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(
                f"{pair[:40]!a} of {text[:60]!a} is no setting",
                hint="Write NAME:key=value,key=value, and the numbers of a list with +",
            )
        given[key.strip()] = value.replace("+", ",")
    return name, read_settings(name, policy.settings, given)


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
    try:
        with path.open("w", encoding="utf-8") as file:
            for policy, mine in rows.items():
                for row in mine:
                    file.write(json.dumps({"policy": policy, **row._asdict()}) + "\n")
                    count += 1
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return count
