"""One load of gangs on a real cluster, through yarnam and through stock Skein, with the same kills;
what came of it by the ResourceManager's own books."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.fault_world import AGENT, AM, JAVA_AM
from tests.integration.rm_books import Shares, read_books, shares
from tests.integration.storm_world import (
    RAW_WORKER,
    Gang,
    Run,
    kill_one,
    partial_starts,
    submit,
)
from yarnam.errors import YarnamError

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

VICTIM_S = 30.0
"""How long a kill waits for a process of its kind: now and then none runs."""

ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})

RAW_SCRIPT = """
touch {folder}/$SKEIN_CONTAINER_ID
for i in $(seq 6000); do
  [ "$(ls {folder} | wc -l)" -ge {tasks} ] && break
  sleep 0.2
done
exec sleep {work_s}
"""
"""What a user of stock Skein writes: each process waits for the others, holding its container."""


@dataclass(frozen=True)
class Kill:
    """``agent``: a process in a worker's container; ``am``: the ApplicationMaster."""

    after_s: float
    kind: str


@dataclass(frozen=True)
class Load:
    gangs: tuple[Gang, ...]
    kills: tuple[Kill, ...] = ()
    nodes: tuple[str, ...] = ()
    """The only nodes (addresses) for its tasks; empty: all."""


@dataclass
class Outcome:
    """What one side made of a load. Times in seconds since its begin."""

    side: str
    gangs: int
    ends_s: dict[str, float] = field(default_factory=dict)
    """Of those that ended well."""
    failed: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)
    """Launches with less than the gang, by the RM's books."""
    left: list[str] = field(default_factory=list)
    hits: list[str] = field(default_factory=list)
    took_s: float = 0.0
    shares: Shares = field(default_factory=lambda: Shares(0.0, 0.0))

    def __str__(self) -> str:
        last = f", the last after {max(self.ends_s.values()):.0f} s" if self.ends_s else ""
        return (
            f"  {self.side:10s} {len(self.ends_s)} of {self.gangs} gangs ended well{last}; "
            f"{len(self.failed)} failed, {len(self.stuck)} not over after {self.took_s:.0f} s; "
            f"{self.shares}; {len(self.hits)} kills"
        )


def three_on_eight(node: str) -> Load:
    """Three gangs of four GPUs, submitted together, for the eight GPUs of one node."""
    return Load(tuple(Gang(f"four-{n}", 4, 1, 3.0) for n in range(1, 4)), nodes=(node,))


def twenty_on_thirty_two(seed: int) -> Load:
    """Twenty gangs of 4 to 20 GPUs over two queues, within a minute and a half, so that the JVMs of
    their ApplicationMasters do not all start at once on a small machine; eight kills."""
    dice = random.Random(seed)
    gangs = tuple(
        Gang(
            f"gang-{number}", dice.randint(1, 5), 4, round(dice.uniform(6.0, 12.0), 1),
            dice.choice(("root.dl", "root.research")), round(dice.uniform(0.0, 90.0), 1),
        )
        for number in range(1, 21)
    )  # fmt: skip
    kills = tuple(
        Kill(round(dice.uniform(20.0, 130.0), 1), "am" if number % 4 == 0 else "agent")
        for number in range(8)
    )
    return Load(
        tuple(sorted(gangs, key=lambda gang: gang.after_s)),
        tuple(sorted(kills, key=lambda kill: kill.after_s)),
    )


# ---- through yarnam -----------------------------------------------------------------------------


def run_yarnam(
    world: FaultWorld, load: Load, folder: Path, limit_s: float, seed: int = 0
) -> Outcome:
    began_s = time.time()
    placement = {"placement": {"include_nodes": list(load.nodes)}} if load.nodes else {}

    def begin(gang: Gang) -> Run:
        time.sleep(max(0.0, began_s + gang.after_s - time.time()))
        return submit(world, gang, folder / gang.name, **placement)

    outcome = Outcome("yarnam", len(load.gangs))
    runs: list[Run] = []
    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(lambda one: runs.append(begin(one)), g) for g in load.gangs]:
            future.add_done_callback(lambda done: done.result())
        _kill_in_time(
            world, load.kills, began_s, random.Random(seed), {"am": AM, "agent": AGENT},
            lambda: [run.job.id for run in runs], outcome,
        )  # fmt: skip
    wanted = {run.job.id: run for run in runs}
    ends = _until_over(world, wanted, began_s, limit_s)
    for name, run in wanted.items():
        if name not in ends:
            outcome.stuck.append(f"{name} ({run.gang.name}): {_why(run)}")
        elif ends[name][1] == "SUCCEEDED":
            outcome.ends_s[run.gang.name] = ends[name][0]
        else:
            outcome.failed.append(f"{name} ({run.gang.name}): {run.job.status().verdict}")
    outcome.took_s = time.time() - began_s
    _close(world, outcome, {run.job.id: run.gang for run in runs})
    outcome.partial = partial_starts(runs, read_books(world.cluster.daemon("rm").log))
    return outcome


def _why(run: Run) -> str:
    with suppress(YarnamError, OSError):
        return run.job.status().reason
    return "?"


# ---- through stock Skein ------------------------------------------------------------------------


def run_raw(world: FaultWorld, load: Load, folder: Path, limit_s: float, seed: int = 0) -> Outcome:
    import skein

    began_s = time.time()
    outcome = Outcome("raw skein", len(load.gangs))
    gangs: dict[str, Gang] = {}
    with _environment(world.environ), skein.Client(log=os.devnull) as client:
        with ThreadPoolExecutor(1) as pool:

            def begin() -> None:
                for gang in load.gangs:
                    time.sleep(max(0.0, began_s + gang.after_s - time.time()))
                    gangs[client.submit(_raw_spec(gang, folder, load.nodes))] = gang

            submitting = pool.submit(begin)
            _kill_in_time(
                world, load.kills, began_s, random.Random(seed),
                {"am": JAVA_AM, "agent": RAW_WORKER}, lambda: list(gangs), outcome,
            )  # fmt: skip
            submitting.result()
        ends = _until_over(world, gangs, began_s, limit_s)
        outcome.took_s = time.time() - began_s
        for name, gang in gangs.items():
            if name not in ends:
                outcome.stuck.append(f"{name} ({gang.name})")
                client.kill_application(name)
            elif ends[name][1] == "SUCCEEDED":
                outcome.ends_s[gang.name] = ends[name][0]
            else:
                outcome.failed.append(f"{name} ({gang.name})")
    _close(world, outcome, gangs)
    return outcome


def _raw_spec(gang: Gang, folder: Path, nodes: Sequence[str]) -> Any:
    import skein

    stamps = folder / gang.name
    stamps.mkdir(parents=True)
    return skein.ApplicationSpec(
        name=gang.name,
        queue=gang.queue,
        max_attempts=2,
        services={
            "worker": skein.Service(
                instances=gang.tasks,
                resources=skein.Resources(memory="512 MiB", vcores=1, gpus=gang.gpus),
                script=RAW_SCRIPT.format(folder=stamps, tasks=gang.tasks, work_s=gang.work_s),
                max_restarts=10,
                nodes=list(nodes),
            )
        },
    )


class _environment:  # noqa: N801  # used like a function
    """The cluster's variables, while Skein's client starts its driver."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._wanted = environ

    def __enter__(self) -> None:
        self._before = dict(os.environ)
        os.environ.update(self._wanted)

    def __exit__(self, *_: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)


# ---- both ---------------------------------------------------------------------------------------


def _kill_in_time(
    world: FaultWorld,
    kills: Sequence[Kill],
    began_s: float,
    dice: random.Random,
    markers: dict[str, str],
    applications: Callable[[], list[str]],
    outcome: Outcome,
) -> None:
    """Each hits one of the applications that live then and have such a process; it waits for one,
    at most ``VICTIM_S``."""
    for kill in kills:
        time.sleep(max(0.0, began_s + kill.after_s - time.time()))
        deadline = time.monotonic() + VICTIM_S
        while time.monotonic() < deadline:
            chosen = list(applications())
            dice.shuffle(chosen)
            hits = ((n, kill_one(world, n, markers[kill.kind], dice)) for n in chosen)
            name, what = next((hit for hit in hits if hit[1]), ("", ""))
            if what:
                at_s = time.time() - began_s
                outcome.hits.append(f"{at_s:.0f} s: {kill.kind} of {name}: {what}")
                break
            time.sleep(0.5)


def _until_over(
    world: FaultWorld, wanted: dict[str, Any], began_s: float, limit_s: float
) -> dict[str, tuple[float, str]]:
    """Application to when it ended and how, as the RM has it, of those that end in time."""
    while True:
        apps = (world.rm("apps").get("apps") or {}).get("app") or []
        over = {
            app["id"]: (app["finishedTime"] / 1000.0 - began_s, app["finalStatus"])
            for app in apps
            if app["id"] in wanted and app["state"] in ENDED
        }
        if len(over) == len(wanted) or time.time() > began_s + limit_s:
            return over
        time.sleep(1.0)


def _close(world: FaultWorld, outcome: Outcome, gangs: dict[str, Gang]) -> None:
    """What the RM says is still held, 30 s after all should have gone, and the GPU-seconds."""
    ended_s = time.time()
    deadline = time.monotonic() + 30.0
    while (left := _held(world, gangs)) and time.monotonic() < deadline:
        time.sleep(0.5)
    outcome.left = left
    books = read_books(world.cluster.daemon("rm").log)
    wanted = {name: gang.all_gpus for name, gang in gangs.items()}
    outcome.shares = shares(books, wanted, ended_s)


def _held(world: FaultWorld, gangs: dict[str, Gang]) -> list[str]:
    apps = (world.rm("apps").get("apps") or {}).get("app") or []
    return [
        f"{app['id']} is {app['state']} with {app.get('runningContainers')} containers"
        for app in apps
        if app["id"] in gangs
        and (app["state"] not in ENDED or max(0, app.get("runningContainers") or 0))
    ]
