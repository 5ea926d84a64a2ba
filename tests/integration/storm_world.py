"""Gangs under faults on a real cluster: what they run, who harms them, what must hold at the end.

Everything random comes from a seed that is printed. It does not reproduce the moments, which hang
on the machine's speed; what was done when, and to whom, is printed too.
"""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import BIN, SHAPE_VARIABLE
from tests.integration.fault_world import AGENT, AM, JAVA_AM, is_shell, kill_now
from tests.integration.rm_books import Held, held_at
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import YarnamError

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job
    from yarnam.cluster import EmbeddedCluster

TRAIN = '''\
"""Each process says that it has started, then all work until so much is done in all. Rank 0 keeps
what is done in a file: that is the checkpoint."""
import os, pathlib, sys, time

folder, work_s = pathlib.Path(sys.argv[1]), float(sys.argv[2])
attempt, rank = int(os.environ["YARNAM_ATTEMPT"]), int(os.environ["YARNAM_RANK"])
stamp = folder / f"start-{attempt}-{rank}"
stamp.with_suffix(".part").write_text(f"{time.time()} {os.environ['YARNAM_WORLD_SIZE']}")
stamp.with_suffix(".part").replace(stamp)
done = folder / "done_s"
while True:
    done_s = float(done.read_text()) if done.exists() else 0.0
    if done_s >= work_s:
        sys.exit(0)
    time.sleep(0.2)
    if rank == 0:
        draft = folder / f"draft-{attempt}"
        draft.write_text(str(done_s + 0.2))
        draft.replace(done)
'''

RAW_WORKER = ".skein.sh"
"""In the command line of what stock Skein runs in a container."""

ENDED_S = 3.0
"""A container that ended so shortly before a launch may still have counted as there: the RM's word
reaches the ApplicationMaster with a heartbeat (0.5 s) and a poll, the launch order an agent with
its own."""

PATIENT: dict[str, Any] = {
    "gang": {
        "attempts": 99,
        "backoff": {"base": "200ms", "cap": "2s"},
        "hold_timeout": "40s",
        "recovery_timeout": "20s",
        "launch_timeout": "20s",
    },
    "retry": {"max_restarts": 99, "blacklist": {"strikes": 0}},
    "am": {"attempts": 12, "orphan_timeout": "10s", "stop_grace": "1s"},
}
"""However often it is hit: the job itself is without fault."""


@dataclass(frozen=True)
class Gang:
    """One job of a load."""

    name: str
    tasks: int
    gpus: int
    work_s: float
    queue: str = "root.dl"
    after_s: float = 0.0
    """Submitted so long after the load began."""

    @property
    def all_gpus(self) -> int:
        return self.tasks * self.gpus


@dataclass
class Run:
    """A gang that has been submitted."""

    gang: Gang
    job: Job
    folder: Path
    hits: list[str] = field(default_factory=list)
    phase: str = "start"
    """As last seen."""
    is_over: bool = False

    def look(self) -> bool:
        """Whether it is over. The way to the AM may be what is broken."""
        if not self.is_over:
            with suppress(YarnamError, OSError):
                status = self.job.status()
                self.phase, self.is_over = status.phase or "start", status.verdict is not None
        return self.is_over

    def launches(self) -> dict[int, dict[int, float]]:
        """Attempt to rank to the time at which the process said that it had started."""
        found: dict[int, dict[int, float]] = {}
        for path in self.folder.glob("start-*-*"):
            if path.suffix:
                continue
            _, attempt, rank = path.name.split("-")
            at_s, world = path.read_text().split()
            assert int(world) == self.gang.tasks, f"{self.job.id} started with {world} processes"
            found.setdefault(int(attempt), {})[int(rank)] = float(at_s)
        return found


def submit(
    world: FaultWorld, gang: Gang, folder: Path, *, command: list[str] | None = None, **changes: Any
) -> Run:
    """In ``folder``, which becomes its own."""
    folder.mkdir(parents=True)
    if command is None:
        script = folder / "train.py"
        script.write_text(TRAIN)
        command = ["python3", str(script), str(folder), str(gang.work_s)]
    worker = {"tasks": gang.tasks, "gpus": gang.gpus, "processes_per_task": 1}
    given = {key: dict(value) for key, value in PATIENT.items()}
    for key, value in changes.items():
        given[key] = {**given.get(key, {}), **value} if isinstance(value, dict) else value
    job = world.submit(gang.name, command, worker=worker, queue=gang.queue, **given)
    return Run(gang, job, folder)


# ---- harm ---------------------------------------------------------------------------------------


def hit_process(world: FaultWorld, run: Run, kind: str, dice: random.Random) -> str:
    """Kill one process of a job as it is now; what was hit, empty if there was nothing."""
    marker = {"am": AM, "java-am": JAVA_AM, "agent": AGENT}[kind]
    return kill_one(world, run.job.id, marker, dice)


def kill_one(world: FaultWorld, application: str, marker: str, dice: random.Random) -> str:
    """One process of an application, chosen by its command line; of yarnam's no shell that waits
    for it. What was hit, empty if there was nothing."""
    found = []
    for candidate in world.pids_of(application, marker):
        with suppress(OSError):  # it may end while it is looked at
            if marker == RAW_WORKER or not is_shell(candidate):
                found.append(candidate)
    if not found:
        return ""
    pid = dice.choice(found)
    container = world.container_of(pid)
    with suppress(ProcessLookupError):
        kill_now(pid)
        return f"process {pid} of {container or 'nowhere'}"
    return ""


@contextmanager
def own_cluster(name: str, folder: Path, overrides: str = "") -> Iterator[EmbeddedCluster]:
    """A cluster that may be harmed: its daemons belong to one test alone. ``overrides``: further
    lines of the shape's, for yarn-site. ``YARNAM_TEST_SHAPE`` counts here too."""
    from yarnam.cluster import EmbeddedCluster
    from yarnam.cluster.cluster_paths import clusters_dir

    folder.mkdir(parents=True, exist_ok=True)
    shape = folder / "shape.yaml"
    shape.write_text(
        "gpus: simulated\n"
        "overrides:\n"
        "  yarn-site:\n"
        "    yarn.resourcemanager.am.max-attempts: 40\n"
        # An AM that was killed is noticed by its NodeManager; a frozen one by this. It counts from
        # the launch: on a machine with much else to do half a minute may be gone before it speaks.
        "    yarn.am.liveness-monitor.expiry-interval-ms: 60000\n" + overrides
    )
    environ = {
        **os.environ,
        "PATH": os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)]),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    yarnam = [str(BIN / "yarnam"), "cluster"]
    asked = shlex.split(os.environ.get(SHAPE_VARIABLE, ""))
    try:
        subprocess.run(
            [*yarnam, "up", "--name", name, "--shape", str(shape), *asked, "--quiet"],
            env=environ, check=True, timeout=300,
        )  # fmt: skip
        yield EmbeddedCluster(name=name, state_root=clusters_dir(environ))
    finally:
        subprocess.run([*yarnam, "down", "--name", name], env=environ, check=True, timeout=120)


# ---- what must hold -----------------------------------------------------------------------------


def await_ends(runs: list[Run], limit_s: float) -> list[str]:
    """What is wrong with how they ended, at most ``limit_s`` from now on."""
    deadline = time.monotonic() + limit_s
    wrong = []
    for run in runs:
        run.look()
        try:
            verdict = run.job.wait(max(1.0, deadline - time.monotonic()))
        except (YarnamError, TimeoutError) as error:
            wrong.append(f"{run.job.id} ({run.gang.name}) has not ended: {error} [{run.phase}]")
            continue
        if verdict.kind is not VerdictKind.SUCCEEDED:
            wrong.append(f"{run.job.id} ({run.gang.name}): {verdict}; hit: {run.hits}")
    return wrong


def partial_starts(runs: list[Run], books: tuple[Held, ...]) -> list[str]:
    """Launches at whose first start the RM did not count the whole gang's GPUs as the job's."""
    wrong = []
    for run in runs:
        for attempt, ranks in sorted(run.launches().items()):
            first_s = min(ranks.values())
            had = held_at(books, run.job.id, first_s, ENDED_S)
            if had < run.gang.all_gpus:
                wrong.append(
                    f"{run.job.id} attempt {attempt} started with {had} of {run.gang.all_gpus} GPUs"
                )
    return wrong


def still_held(books: tuple[Held, ...], runs: list[Run]) -> list[str]:
    """Containers that the RM's log never ended."""
    mine = {run.job.id for run in runs}
    return [h.container for h in books if h.application in mine and h.until_s is None]


__all__ = [
    "Gang",
    "Run",
    "await_ends",
    "hit_process",
    "kill_one",
    "own_cluster",
    "partial_starts",
    "still_held",
    "submit",
]
