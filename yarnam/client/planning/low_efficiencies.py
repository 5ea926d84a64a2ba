"""The ended jobs whose GPUs waited for the network for most of each step."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from yarnam.client.monitor.job_history import JobHistory, Listing
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import HistoryFilter
from yarnam.core.advice.low_efficiency import efficiency_of
from yarnam.core.fits.step_time import StepSample
from yarnam.core.model.printable import gpu_hours

MOST_RECORDS = 500
"""The newest jobs with several processes whose records are read."""

HEADERS = ("ID", "NAME", "USER", "QUEUE", "GPUS", "GPU-H", "COMPUTES", "HALF THE GPUS GIVE")


class SlowJob(NamedTuple):
    """One job. ``efficiency`` is the share of a step in which it computed; ``half_speed`` the share
    of its speed that half of its processes would have had, ``None`` if unknown."""

    application: str
    name: str
    user: str
    queue: str
    gpus: int
    gpu_s: float
    efficiency: float
    half_speed: float | None

    @property
    def cells(self) -> tuple[str, ...]:
        half = "unknown" if self.half_speed is None else f"{self.half_speed:.0%} of its speed"
        return (
            self.application, self.name, self.user, self.queue, str(self.gpus),
            gpu_hours(self.gpu_s), f"{self.efficiency:.0%} of a step", half,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SlowJobs:
    """The one that used the most GPU time first."""

    listing: Listing
    jobs: tuple[SlowJob, ...]
    measured: int
    unmeasured: int


def low_efficiencies(history: JobHistory, filters: HistoryFilter, user: str = "") -> SlowJobs:
    """The jobs of a filter, of which the newest count. ``user``: as for ``JobHistory.jobs``."""
    listing = history.jobs(filters, user)
    rows = [row for row in listing.rows if row.gpus > 1 and row.started_at_s][:MOST_RECORDS]
    gpu_s = {row.key: row.held_gpu_s for row in rows}
    records = list(history.records(rows))
    runs: dict[tuple[str, str], list[StepSample]] = defaultdict(list)
    for record in records:
        runs[_program(record)] += _sizes(record)
    found: list[SlowJob] = []
    measured = 0
    for record in records:
        sizes = _sizes(record)
        efficiency = efficiency_of(sizes[-1], runs[_program(record)]) if sizes else None
        if efficiency is None:
            continue
        measured += 1
        if efficiency.is_low:
            found.append(
                SlowJob(
                    record.application, record.name, record.user, record.queue, record.gpus,
                    gpu_s.get(record.key, 0.0), round(efficiency.share, 3),
                    None if efficiency.half_speed is None else round(efficiency.half_speed, 3),
                )
            )  # fmt: skip
    found.sort(key=lambda job: -job.gpu_s)
    return SlowJobs(listing, tuple(found), measured, len(records) - measured)


def _program(record: HistoryRecord) -> tuple[str, str]:
    return record.user, record.program or record.name


def _sizes(record: HistoryRecord) -> list[StepSample]:
    return [
        StepSample(size.nodes, size.processes, 1.0, size.step_s, size.compute_s)
        for size in record.sizes
        if 1 <= size.nodes <= size.processes and size.step_s > 0.0
    ]
