"""How often forecasts hold: of the jobs that waited for a minute or more, the share that had
started by the likely time (half should) and by the latest (nine of ten should).

    python -m tests.benchmarks.forecast_sweep --seeds 0-7

Each job's first forecast is held against when its gang then stood in the simulator. *Before* is the
rule that forecasts had first: the median and the 18th of 20 plays, never widened.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

from yarnam.core.admission import QueueSnapshot
from yarnam.core.admission.forecast import PLAYS, Forecast, from_plays, play_starts
from yarnam.core.model.tickets import Ticket
from yarnam.sim import (
    Mode,
    Outcome,
    RmSettings,
    SimJob,
    SimSettings,
    Workload,
    WorkloadSettings,
    simulate,
    workload,
)
from yarnam.sim.what_if.replay import PastJob, PastRole, replay
from yarnam.sim.yarn_model.sim_queues import queue_tree

RM = RmSettings(nodes=12)
SLACK_S = 60.0
"""Asks, grants and starts, which forecasts leave out; and nobody minds a minute."""


def together(seed: int) -> Workload:
    """Forty jobs in the first second, on a busy cluster; nobody comes later."""
    given = workload(WorkloadSettings(jobs=40, load=4.0, busy=0.95, seed=seed), RM)
    return replace(given, jobs=tuple(replace(j, submit_s=j.number / 40) for j in given.jobs))


def stream(seed: int) -> Workload:
    """Jobs keep coming, a third more than the cluster can do; half of them declare a duration."""
    return workload(WorkloadSettings(jobs=120, load=1.3, busy=0.95, seed=seed), RM)


def declared(seed: int) -> Workload:
    """The same, and all declare one to three times what they take."""
    return workload(WorkloadSettings(jobs=120, load=1.3, busy=0.95, seed=seed, declared=1.0), RM)


def alike(seed: int) -> Workload:
    """The same, but all run times are wrong in one way: a quarter, half, twice or four times what
    ages and declared durations suggest."""
    factor = random.Random(seed).choice((0.25, 0.5, 2.0, 4.0))
    given = workload(WorkloadSettings(jobs=120, load=1.3 / factor, busy=0.95, seed=seed), RM)
    jobs = tuple(replace(job, duration_s=job.duration_s * factor) for job in given.jobs)
    gangs = tuple(replace(gang, ends_s=gang.ends_s * factor) for gang in given.initial_gangs)
    return Workload(jobs, gangs)


def replayed(seed: int) -> Workload:
    """A trace, as ``yarnam queues what-if`` plays it: an idle cluster that fills up; nobody has
    declared anything."""
    drawn = workload(WorkloadSettings(jobs=150, load=2.0, seed=seed), RM)
    past = [_past(job) for job in drawn.jobs]
    return replay(past, replace(RM, root=queue_tree(RM.queues))).workload


def _past(job: SimJob) -> PastJob:
    role = job.spec.roles[0]
    roles = (PastRole("worker", role.tasks, role.resources),)
    return PastJob(job.queue, job.submit_s, job.duration_s, roles, is_flexible=True)


WORLDS: dict[str, Callable[[int], Workload]] = {
    "together": together,
    "stream": stream,
    "declared": declared,
    "alike": alike,
    "replayed": replayed,
}


@dataclass(frozen=True, slots=True)
class Holds:
    """Of one kind of world: the shares of jobs that had started by the times forecast."""

    world: str
    jobs: int
    by_likely: float
    by_latest: float
    by_likely_before: float
    by_latest_before: float
    width: float
    """The latest as a multiple of the wait, in the median."""


@dataclass(frozen=True, slots=True)
class _Made:
    at_s: float
    now: Forecast
    likely_before_s: float
    latest_before_s: float


def holds(world: str, seeds: Sequence[int]) -> Holds:
    """Plays the worlds of these seeds."""
    found: list[tuple[float, _Made]] = []
    for seed in seeds:
        made: dict[int, _Made] = {}
        outcome = _run(WORLDS[world](seed), made)
        for number, one in made.items():
            stood_s = outcome.records[number].stood_s
            found.append(((inf if stood_s is None else stood_s) - one.at_s, one))
    rows = [(wait_s, one) for wait_s, one in found if one.now.likely_s >= SLACK_S]
    count = max(1, len(rows))
    widths = sorted(one.now.latest_s / max(SLACK_S, wait_s) for wait_s, one in rows)
    return Holds(
        world,
        len(rows),
        sum(wait_s <= one.now.likely_s + SLACK_S for wait_s, one in rows) / count,
        sum(wait_s <= one.now.latest_s + SLACK_S for wait_s, one in rows) / count,
        sum(wait_s <= one.likely_before_s + SLACK_S for wait_s, one in rows) / count,
        sum(wait_s <= one.latest_before_s + SLACK_S for wait_s, one in rows) / count,
        widths[len(widths) // 2] if widths else 0.0,
    )


def _run(given: Workload, made: dict[int, _Made]) -> Outcome:
    def on_wait(job: SimJob, ticket: Ticket, seen: QueueSnapshot) -> float | None:
        plays = play_starts(ticket, seen, PLAYS)
        found = from_plays(ticket, seen, plays)
        if not isinstance(found, Forecast):
            return None
        made[job.number] = _Made(seen.now_s, found, plays[PLAYS // 2], plays[-1 - PLAYS // 10])
        return found.unwidened_s if found.unwidened_s < inf else None

    return simulate(given, SimSettings(Mode.TICKETS, rm=RM), on_wait=on_wait)


def table(rows: Sequence[Holds]) -> str:
    """One row for each kind of world."""
    head = f"{'world':<10} {'jobs':>5}  {'by p50':>7} {'by p90':>7} {'p90/wait':>9}   "
    lines = [f"{head}{'before: p50':>11} {'p90':>5}"]
    lines += [
        f"{row.world:<10} {row.jobs:>5}  {row.by_likely:>7.0%} {row.by_latest:>7.0%} "
        f"{row.width:>9.1f}   {row.by_likely_before:>11.0%} {row.by_latest_before:>5.0%}"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-7")
    parser.add_argument("--worlds", default=",".join(WORLDS))
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    rows = []
    for world in given.worlds.split(","):
        rows.append(holds(world, seeds))
        print(table(rows[-1:]), flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
