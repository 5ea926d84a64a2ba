"""A real Hadoop cluster on this machine, as an object: up, down, status, and each daemon."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from yarnam.cluster import lifecycle, machine_users
from yarnam.cluster.cluster_paths import (
    DEFAULT_NAME,
    ClusterPaths,
    cache_dir,
    check_cluster_name,
    clusters_dir,
)
from yarnam.cluster.cluster_plan import ClusterPlan, ClusterRecord, load_cluster
from yarnam.cluster.cluster_status import ClusterStatus, cluster_status
from yarnam.cluster.daemons.daemon_processes import ProcessId, end, read_record
from yarnam.cluster.hadoop import shims
from yarnam.cluster.reporters import Reporter, SilentReporter
from yarnam.cluster.shape import ClusterShape, Node
from yarnam.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from typing_extensions import Self

# A daemon asked to stop closes its files and leaves; one that does not is killed.
STOP_GRACE_S = 10.0
STOP_LIMIT_S = 10.0


class EmbeddedCluster:
    """One named cluster of this user. Usable as a context manager::

        with EmbeddedCluster(ClusterShape(nodes=2), name="test") as cluster:
            subprocess.run(["hdfs", "dfs", "-ls", "/"], env=cluster.environ())
            cluster.daemon("nm1").kill()

    The object holds no state of its own: what is up is written down under ``state_root``, so any
    number of objects and commands may work with the same cluster.
    """

    def __init__(
        self,
        shape: ClusterShape | None = None,
        *,
        name: str = DEFAULT_NAME,
        state_root: Path | None = None,
        cache: Path | None = None,
        reporter: Reporter | None = None,
        shared_machine: bool = False,
    ) -> None:
        """``shared_machine``: start it also where other people use the machine, who can then run
        programs as this user."""
        self.shape = shape
        self.paths = ClusterPaths(state_root or clusters_dir(), check_cluster_name(name))
        self._cache = cache or cache_dir()
        self._reporter = reporter or SilentReporter()
        self._shared_machine = shared_machine or bool(os.environ.get(machine_users.VARIABLE))

    @property
    def name(self) -> str:
        return self.paths.name

    def up(self) -> lifecycle.UpResult:
        """Start it, or find it up. Returns when it can take a job. Without a shape it keeps the one
        that it has."""
        found = load_cluster(self.paths)
        shape = self.shape or (found.plan.shape if found is not None else ClusterShape())
        return lifecycle.up(
            shape, self.paths, self._cache, self._reporter, shared_machine=self._shared_machine
        )

    def down(self, *, keep_data: bool = False) -> bool:
        """End every process, containers included, and remove its folder."""
        return lifecycle.down(self.paths, self._reporter, keep_data=keep_data)

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def record(self) -> ClusterRecord:
        """The cluster's record. Raises Unavailable when it is not up."""
        found = load_cluster(self.paths)
        if found is None or found.phase == "kept":
            raise Unavailable(
                f"cluster '{self.name}' is not up",
                hint=f"Bring it up: yarnam cluster up{self._name_option()}",
            )
        return found

    def ready_plan(self) -> ClusterPlan:
        """The plan of a cluster whose `up` has succeeded. Raises Unavailable."""
        found = self.record()
        if found.phase != "ready":
            state = "still starting" if found.phase == "starting" else "down: its start failed"
            raise Unavailable(
                f"cluster '{self.name}' is {state}",
                hint=f"Logs: {self.paths.logs}. Bring it up: yarnam cluster up"
                f"{self._name_option()}",
            )
        return found.plan

    def _name_option(self) -> str:
        return "" if self.name == DEFAULT_NAME else f" --name {self.name}"

    @property
    def plan(self) -> ClusterPlan:
        return self.ready_plan()

    @property
    def conf_dir(self) -> Path:
        return self.paths.conf

    @property
    def rm_url(self) -> str:
        """The web URL of the first ResourceManager."""
        return self.plan.rm_url

    @property
    def namenode_uri(self) -> str:
        return self.plan.namenode_uri

    @property
    def zookeeper(self) -> str | None:
        return self.plan.zookeeper

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.plan.nodes

    def env(self, user: str = "") -> dict[str, str]:
        """Variables to set; PATH is only what goes in front of the user's own. ``user``: of a
        secure cluster, by default who has started it."""
        return shims.environment(self.plan, user)

    def environ(self, user: str = "") -> dict[str, str]:
        """This process's environment with the cluster's variables, ready for a subprocess."""
        own = self.env(user)
        path = os.environ.get("PATH") or os.defpath
        return {**os.environ, **own, "PATH": f"{own['PATH']}:{path}"}

    def status(self) -> ClusterStatus:
        return cluster_status(self.record())

    def daemon(self, name: str) -> Daemon:
        plan = self.record().plan
        if name not in plan.daemons:
            raise UsageError(
                f"cluster '{self.name}' has no daemon '{name}'",
                hint=f"Its daemons: {', '.join(plan.daemons)}.",
            )
        return Daemon(self, name)

    def processes(self) -> list[ProcessId]:
        """Every living process that belongs to it: daemons, containers and what they started."""
        return lifecycle.living_processes(self.paths)

    def start_daemons(self, names: list[str]) -> None:
        """Start daemons; return when they, and those that depend on them, are ready."""
        lifecycle.start_again(self.record().plan, names, self._reporter)


@dataclass(frozen=True, slots=True)
class Daemon:
    """One daemon of a cluster, for restarts and for injected faults."""

    cluster: EmbeddedCluster
    name: str

    @property
    def identity(self) -> ProcessId | None:
        """Its process; None when it does not run."""
        found = read_record(self.cluster.paths.process_record(self.name))
        return found if found is not None and found.is_alive() else None

    @property
    def pid(self) -> int | None:
        identity = self.identity
        return None if identity is None else identity.pid

    @property
    def log(self) -> Path:
        return self.cluster.paths.log(self.name)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal (SIGKILL, SIGSTOP, SIGCONT ...); after SIGKILL, wait for the end."""
        identity = self.identity
        if identity is None or not identity.send(number):
            raise Unavailable(f"{self.name} of cluster '{self.cluster.name}' is not running")
        if number == signal.SIGKILL:
            end([identity], 0, STOP_LIMIT_S)

    def stop(self) -> None:
        """Stop it with SIGTERM; does nothing when it is not running. Containers stay."""
        identity = self.identity
        if identity is not None and end([identity], STOP_GRACE_S, STOP_LIMIT_S):
            raise Unavailable(f"{self.name} (process {identity.pid}) does not end")

    def start(self) -> None:
        """Start it and wait until it is ready; does nothing when it runs."""
        if self.identity is None:
            self.cluster.start_daemons([self.name])

    def restart(self) -> None:
        self.stop()
        self.start()
