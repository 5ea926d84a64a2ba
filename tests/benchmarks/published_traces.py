"""What others published, and where it comes from. Their data is read at run time from the folder
that ``YARNAM_TRACES`` names, and is no part of this project:

- ``60_job.csv``: ``simulator/60_job.csv`` of Tiresias's public repository - ``trace1.csv`` to
``trace4.csv``: ``simulator/trace-data`` of Muri's - ``kth-sp2.swf``:
``experiments/data/KTH-SP2/swf_unfiltered/log.swf`` of predictsim (SC'15)
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path

from yarnam.client.planning.policy_runs import start_costs_of
from yarnam.core.policies.policy_registry import policy_named
from yarnam.core.policies.policy_settings import Settings, read_settings
from yarnam.sim.ideal.trace_job import TraceJob

FOLDER = os.environ.get("YARNAM_TRACES", "")


def trace_file(name: str) -> str | None:
    path = Path(FOLDER) / name
    return str(path) if FOLDER and path.is_file() else None


def as_published(policy: str, **given: str) -> Settings:
    """Without the least times of runs and pauses that a real cluster wants."""
    known = policy_named(policy).settings
    zero = {one.name: "0" for one in known if one.name in ("least_run", "least_pause")}
    return read_settings(policy, known, zero | given)


TIRESIAS_60 = {
    ("fifo", "0"): (200.817, 3335.0),
    ("fifo", "1"): (190.683, 3271.0),
    ("srtf", ""): (192.117, 3271.0),
}
"""Policy and whether it skips: mean JCT and last end, seconds; 16 GPUs, counted."""

MURI = {
    ("trace1", "srtf"): (1370603.198, 26045465.533),
    ("trace1", "srsf"): (980140.5699, 26065759.045),
    ("trace1", "tiresias"): (3330371.307, 23556410.217),
    ("trace2", "srtf"): (2665607.375, 48847005.198),
    ("trace2", "srsf"): (2213949.687, 49026465.311),
    ("trace2", "tiresias"): (7396368.514, 48117093.308),
    ("trace3", "srtf"): (193081.796, 8174135.280),
    ("trace3", "srsf"): (185021.8802, 8174135.280),
    ("trace3", "tiresias"): (347213.2481, 8174226.280),
    ("trace4", "srtf"): (581982.9002, 14787990.592),
    ("trace4", "srsf"): (487167.1688, 14887908.866),
    ("trace4", "tiresias"): (1319382.936, 13073838.618),
}
"""Mean JCT and makespan, seconds; eight nodes of eight GPUs (``simulator/draw_fig9-10.py``)."""

MURI_STARTS = start_costs_of(str(Path(__file__).with_name("muri_starts.csv")))
"""What Muri measured for the start of each model, by GPUs."""


def muri_start_s(job: TraceJob) -> float:
    """10 s for others."""
    return MURI_STARTS.get((job.model, job.gpus), 10.0)


@dataclass(frozen=True)
class BatchFigures:
    flow_mean_s: float
    slowdown_mean: float
    flow_max_s: float


KTH = {
    "1": BatchFigures(14764.0026684456, 69.4054005803035, 372238.0),
    "0": BatchFigures(15696.7981812436, 92.5765397336295, 309231.0),
}
"""EASY-SJBF and EASY on 100 processors (``sim_analysis/metrics`` of predictsim)."""


def ffdl_jobs(seed: int, jobs: int = 4000, load: float = 0.7) -> list[TraceJob]:
    """As FfDL's study of PACK and SPREAD describes them: 1 to 8 learners (mean 4.5), 1 to 4 GPUs
    (mean 2.5) and 4 to 16 cores each (mean 5), on 100 machines with 4 GPUs and 32 cores. Run times
    and gaps are ours: exponential, an hour on average, at this load of GPUs."""
    dice = random.Random(seed)
    rate = load * 400 / (4.5 * 2.5 * 3600.0)
    at_s, found = 0.0, []
    for number in range(jobs):
        at_s += dice.expovariate(rate)
        learners, gpus = dice.randint(1, 8), dice.randint(1, 4)
        cores = min(16, 4 + int(dice.expovariate(0.7)))
        found.append(
            TraceJob(
                f"j{number}", at_s, dice.expovariate(1 / 3600.0), learners * gpus,
                tasks=learners, vcores=learners * cores,
            )
        )  # fmt: skip
    return found
