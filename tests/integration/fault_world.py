"""Jobs on a real cluster, and the faults that are done to them on purpose."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from hdfs_utils import uri as uris
from tests.conftest import BIN, identity
from yarnam.client import Client, Job
from yarnam.client.site import Site, open_site
from yarnam.cluster.daemons import daemon_probes
from yarnam.core.model.ids import ApplicationId
from yarnam.core.model.job_status import JobStatus, Phase
from yarnam.core.model.outcomes import Verdict
from yarnam.ports.job_access import Launcher
from yarnam.wire.codec import decode

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

T = TypeVar("T")

MARKS = [
    pytest.mark.yarn,
    pytest.mark.hdfs,
    # Skein's client compares versions with distutils each time it is made.
    pytest.mark.filterwarnings("ignore:distutils Version classes:DeprecationWarning"),
]

LIMIT_S = 240.0
"""For anything that takes some seconds on a quiet machine: two cores may have much else to do."""

CLEAR_S = 30.0
"""From the end of a job until YARN's books and the process table show nothing of it."""

AM = "yarnam.cli.containers.am_process"
AGENT = "yarnam.cli.containers.agent_process"
JAVA_AM = "com.anaconda.skein.ApplicationMaster"

NAMES_IN_JOB_DIR = {
    "am.json",
    "credentials.pem",
    "fence",
    "files",
    "hconf.zip",
    "job.json",
    "journal",
    "requests",
    "series.json",
    "status.json",
    "ticket.json",
    "verdict.json",
}

UNFINISHED = re.compile(r"\.[a-z]+\.(json\.[0-9a-f]{32}\.tmp|[a-z]+\.[0-9a-f]{12})")
"""What a killed writer, or a request that was given up on, leaves of a file that it was writing:
hidden, under a name of its own."""

SMALL = {"tasks": 2, "gpus": 1, "memory": "512MiB", "vcores": 1}
QUICK = {"base": "200ms", "cap": "1s"}


@dataclass(frozen=True)
class Done:
    """A command of the command line that has ended."""

    code: int
    out: str
    err: str
    took_s: float

    def __str__(self) -> str:
        return f"exit code {self.code} after {self.took_s:.1f} s\n{self.out}\n{self.err}"


class Running:
    """A command under way."""

    def __init__(self, command: Sequence[str], environ: dict[str, str]) -> None:
        self.command = command
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace",
        )  # fmt: skip

    def until_it_speaks(self, limit_s: float = LIMIT_S) -> None:
        """It has something on its stdout, which stays there for ``wait``."""
        ready, _, _ = select.select([self.process.stdout], [], [], limit_s)
        assert ready, f"{' '.join(self.command)} says nothing for {limit_s:.0f} s"

    def wait(self, limit_s: float = LIMIT_S) -> Done:
        try:
            out, err = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(
                f"{' '.join(self.command)} hangs: not over after {limit_s:.0f} s\n{out}\n{err}"
            ) from None
        return Done(self.process.returncode, out, err, time.monotonic() - self._began)


@dataclass
class _SharedLauncher:
    """One Skein driver for all jobs of a module; each test of ``yarnam submit`` has its own."""

    inner: Launcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def close(self) -> None:
        pass


@dataclass
class FaultWorld:
    """A cluster, a client of it, and the ways to look at and to harm what runs there."""

    cluster: EmbeddedCluster
    folder: Path
    jobs: list[Job] = field(default_factory=list)
    conf_dir: Path | None = None
    """The client's configuration, if it is not the cluster's own."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the client's environment, beside the cluster's."""

    def __post_init__(self) -> None:
        where = self.conf_dir or self.cluster.conf_dir
        self.environ = {
            **self.cluster.environ(),
            "HADOOP_CONF_DIR": str(where),
            **self.variables,
        }
        site = open_site(where, environ=self.environ)
        self._launcher = site.open_launcher()
        shared = _SharedLauncher(self._launcher)
        self.site: Site = replace(site, open_launcher=lambda: shared)
        self.client = Client(site=self.site)

    def close(self) -> None:
        self.client.close()
        self._launcher.close()

    def end_all(self) -> None:
        """Kill the jobs that still live: of tests that failed, or were not chosen."""
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            found = self.site.rm.application(job.id)
            if found is not None and not found.is_over:
                job.kill("its tests are over")

    # ---- jobs ----------------------------------------------------------------------------

    def document(self, name: str, command: str | list[str], **changes: Any) -> dict[str, Any]:
        """A small spec; ``worker`` changes its one role, ``nodes`` keeps it to these nodes."""
        worker = {**SMALL, **changes.pop("worker", {})}
        wanted = changes.pop("nodes", None)
        document: dict[str, Any] = {
            "version": 1,
            "name": name,
            "queue": "root.dl",
            "command": command,
            "roles": {"worker": worker},
            "am": {"stop_grace": "2s", **changes.pop("am", {})},
            **changes,
        }
        if wanted is not None:
            others = [node.address for node in self.cluster.nodes if node.name not in wanted]
            document.setdefault("placement", {})["exclude_nodes"] = others
        return document

    def write(self, document: dict[str, Any]) -> Path:
        path = self.folder / f"{document['name']}.yaml"
        path.write_text(json.dumps(document, indent=2), encoding="utf-8")  # JSON is YAML
        return path

    def submit(self, name: str, command: str | list[str], **changes: Any) -> Job:
        job = self.client.submit(self.write(self.document(name, command, **changes)))
        self.jobs.append(job)
        return job

    def yarnam(self, *arguments: str, **environ: str) -> Running:
        return Running([str(BIN / "yarnam"), *arguments], {**self.environ, **environ})

    # ---- looking -------------------------------------------------------------------------

    def until(
        self, job: Job, accept: Callable[[JobStatus], bool], what: str, limit_s: float = LIMIT_S
    ) -> JobStatus:
        """The first status that is accepted."""
        deadline = time.monotonic() + limit_s
        while True:
            status = job.status()
            if accept(status):
                return status
            if status.verdict is not None:
                raise AssertionError(f"{job.id} ended before {what}: {status.verdict}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{job.id}: no {what} after {limit_s:.0f} s: {status}")
            time.sleep(0.1)

    def until_phase(self, job: Job, phase: Phase, limit_s: float = LIMIT_S) -> JobStatus:
        return self.until(job, lambda s: s.phase == phase.value, phase.value, limit_s)

    def end_of(self, job: Job, limit_s: float = LIMIT_S) -> Verdict:
        return job.wait(limit_s)

    def events(self, job: Job, kind: type[T]) -> list[T]:
        """The journal's events of one kind, in order."""
        return [event for event in job.events() if isinstance(event, kind)]

    def rm(self, path: str) -> Any:
        url = f"{self.cluster.rm_url}/ws/v1/cluster/{path}"
        return identity(self.cluster).get(url, timeout_s=10).json()

    def gpus_of(self, job: Job) -> int:
        """GPUs in the containers that the ResourceManager's records count for the job."""
        attempts = self.rm(f"apps/{job.id}/appattempts")["appAttempts"]["appAttempt"]
        gpus = 0
        for attempt in attempts if isinstance(attempts, list) else [attempts]:
            path = f"apps/{job.id}/appattempts/{attempt['appAttemptId']}/containers"
            found = (self.rm(path) or {}).get("container") or []
            for container in found if isinstance(found, list) else [found]:
                if container["containerState"] != "COMPLETE":
                    rows = container["allocatedResources"]["entry"]
                    gpus += sum(int(row["value"]) for row in rows if row["key"] == "yarn.io/gpu")
        return gpus

    def pids(self, job: Job, marker: str = "") -> list[int]:
        """Living processes in the job's containers; ``marker`` is part of the command line."""
        return self.pids_of(job.id, marker)

    def pids_of(self, application: str, marker: str = "") -> list[int]:
        """The same by YARN's name of any application."""
        number = application.removeprefix("application").encode()
        owner = f"YARNAM_CLUSTER_ID={self.cluster.plan.cluster_id}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
                line = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )
            except OSError:
                continue
            mine = any(v.startswith(b"CONTAINER_ID=") and number + b"_" in v for v in variables)
            if mine and owner in variables and marker in line:
                found.append(int(entry.name))
        return sorted(found)

    def container_of(self, pid: int) -> str:
        """The YARN container that a process belongs to; empty: it has just ended."""
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return ""
        if not variables:  # a zombie's
            return ""
        found = re.search(rb"(?:^|\0)CONTAINER_ID=([^\0]*)", variables)
        assert found is not None
        return found[1].decode()

    def node_of_container(self, job: Job, container: str) -> str:
        """The NodeManager (nm1, ...) below whose directory a container runs."""
        for node in self.cluster.nodes:
            logs = self.cluster.paths.data / node.name / "container-logs" / job.id / container
            if logs.exists():
                return node.name
        raise AssertionError(f"{container} is on no node")

    def node_named(self, address: str) -> str:
        """The NodeManager (nm1, ...) at an address."""
        return next(node.name for node in self.cluster.nodes if node.address == address)

    # ---- harm ----------------------------------------------------------------------------

    def am_pid(self, job: Job, marker: str = AM) -> int:
        """Of the AM's Python, or with ``JAVA_AM`` of Skein's Java; the process itself, not the
        shell that started it."""
        return self.the_pid(job, lambda pid: marker in _arguments(pid) and not is_shell(pid))

    def agent_pid(self, job: Job, container: str) -> int:
        """The agent itself, not the keeper that it has forked."""
        return self.the_pid(
            job,
            lambda pid: (
                AGENT in _arguments(pid)
                and self.container_of(pid) == container
                and AGENT not in _arguments(parent_of(pid))
            ),
        )

    def the_pid(self, job: Job, accept: Callable[[int], bool]) -> int:
        deadline = time.monotonic() + LIMIT_S
        while True:
            found = []
            for pid in self.pids(job):
                with suppress(OSError):  # it may end while it is looked at
                    if accept(pid):
                        found.append(pid)
            if len(found) == 1:
                return found[0]
            assert time.monotonic() < deadline, f"{job.id}: not one such process but {found}"
            time.sleep(0.1)

    def signal_agent(self, job: Job, container: str, number: int) -> None:
        os.kill(self.agent_pid(job, container), number)

    def until_nodes_are_back(self) -> None:
        deadline = time.monotonic() + LIMIT_S
        while {node.state for node in self.cluster.status().nodes} != {"RUNNING"}:
            assert time.monotonic() < deadline, self.cluster.status().nodes
            time.sleep(0.5)

    # ---- what must hold after every fault ------------------------------------------------

    def assert_cleared(self, job: Job) -> None:
        """No process, no container, no GPU; on HDFS only whole files with the known names."""
        deadline = time.monotonic() + CLEAR_S
        while (left := self._left(job)) and time.monotonic() < deadline:
            time.sleep(0.3)
        assert not left, f"{job.id} has left {left}"
        self._assert_whole_on_hdfs(job)

    def _left(self, job: Job) -> list[str]:
        app = self.rm(f"apps/{job.id}")["app"]
        left = [f"process {pid}: {_arguments(pid)[:160]}" for pid in self.pids(job)]
        if app["state"] not in {"FINISHED", "FAILED", "KILLED"}:
            left.append(f"application {app['state']}")
        containers, gpus = max(0, app.get("runningContainers") or 0), self.gpus_of(job)
        if containers or gpus:
            left.append(f"{containers} containers with {gpus} GPUs")
        staging = uris.parse(self.site.paths.skein_staging(ApplicationId(job.id))).path
        if self.site.files.exists(staging):
            left.append(f"Skein's staging directory {staging}")
        return left

    def _assert_whole_on_hdfs(self, job: Job) -> None:
        directory = uris.parse(job.directory).path
        names = {Path(status.path).name for status in self.site.files.list(directory)}
        names = {name for name in names if not UNFINISHED.fullmatch(name)}
        assert names <= NAMES_IN_JOB_DIR, f"unknown files in {directory}: {names}"
        status = job.status()
        assert status.verdict is not None
        if "verdict.json" in names:
            content = self.site.files.read_bytes(f"{directory}/verdict.json")
            assert decode(content, Verdict) == status.verdict
        job.events()  # readable to its end


def active(cluster: EmbeddedCluster) -> str:
    """The name of the ResourceManager that is active, or becomes so within ``LIMIT_S``."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            return daemon_probes.active_rm(cluster.plan)
        except daemon_probes.NotReady:
            assert time.monotonic() < deadline, "no ResourceManager is active"
            time.sleep(0.2)


def _arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (OSError, UnicodeDecodeError):
        return ""


def is_shell(pid: int) -> bool:
    """Raises OSError for a process that has just ended."""
    return Path(f"/proc/{pid}/exe").readlink().name in {"bash", "sh", "dash"}


def parent_of(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(text.rpartition(")")[2].split()[1])


def waiting_for(flag: Path) -> str:
    """A shell line that ends well as soon as the file is there."""
    return f"while [ ! -e {flag} ]; do sleep 0.2; done"


def long_until(flag: Path) -> str:
    """A shell line that ends well at once when the file is there, and else in ten minutes: what has
    been started before does not notice the file."""
    return f"if [ ! -e {flag} ]; then sleep 600; fi"


STUBBORN = "trap '' TERM; while true; do sleep 1; done"
"""Ends by SIGKILL only."""


def kill_now(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
