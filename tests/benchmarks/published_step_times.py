"""Public measurements of training steps, read from where their user has put them: the folder that
``YARNAM_TRACES`` names.

- ``sia-simulator/traces/<model>/{placements,scalability}-<cluster>.csv`` of siasosp23/artifacts;
- ``simulation_throughputs.json`` of stanford-futuredata/gavel.
"""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.published_traces import trace_file
from yarnam.core.fits.step_time import StepSample

CLUSTERS = ("aws", "azure", "dgx")
MODELS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
LEAST_S = 1e-4
"""Rows with a shorter step or compute are not measurements."""


@dataclass(frozen=True, slots=True)
class Measured:
    sample: StepSample
    is_even: bool
    """Whether each node is known to have as many GPUs."""


def sia(model: str, cluster: str) -> list[Measured]:
    """All rows of one model on one cluster; empty without the files."""
    return [
        Measured(sample, is_even)
        for kind in ("placements", "scalability")
        for sample, is_even in _rows(f"sia-simulator/traces/{model}/{kind}-{cluster}.csv")
    ]


def _rows(name: str) -> Iterator[tuple[StepSample, bool]]:
    path = trace_file(name)
    if path is None:
        return
    with Path(path).open(newline="") as file:
        for row in csv.DictReader(file):
            step_s = float(row["step_time"])
            compute_s = step_s - float(row["sync_time"])
            if min(step_s, compute_s) <= LEAST_S:
                continue
            if "placement" in row:
                on_node = [int(digit) for digit in row["placement"]]
                nodes, processes = len(on_node), sum(on_node)
            else:  # how they were spread is not told
                on_node = []
                nodes, processes = int(float(row["num_nodes"])), int(float(row["num_replicas"]))
            sample = StepSample(nodes, processes, float(row["local_bsz"]), step_s, compute_s)
            yield sample, len(set(on_node)) == 1


def gavel() -> list[dict[int, float]]:
    """Seconds of a step by the number of GPUs, for each job and GPU model that ran on 1, 2, 4 and 8
    of them with a batch for each GPU."""
    path = trace_file("simulation_throughputs.json")
    if path is None:
        return []
    found = []
    for jobs in json.loads(Path(path).read_text()).values():
        series: dict[str, dict[int, float]] = {}
        for name, rates in jobs.items():
            model, gpus = ast.literal_eval(name)
            rate = rates.get("null", 0.0)
            if rate > 0:
                series.setdefault(model, {})[gpus] = gpus / rate
        found += [one for one in series.values() if all(size in one for size in (1, 2, 4, 8))]
    return found
