"""A cluster of fakes behind a real client: what the unit tests of client and CLI share."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.fakes.files import MemoryFiles
from tests.fakes.job_client import FakeJobClient
from tests.fakes.launcher import FakeLauncher
from tests.fakes.resource_manager import FakeResourceManager
from yarnam.client import Client, Job
from yarnam.client.environments.interpreter_archive import own_interpreter
from yarnam.client.environments.runtime_archive import runtime_source
from yarnam.client.site import ClientTiming, Site
from yarnam.client.user_paths import new_key, tag_of
from yarnam.core.model.job_spec import JobSpec, RoleSpec
from yarnam.core.model.job_status import JobState, JobStatus, TaskStatus
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.core.model.resources import Resources
from yarnam.wire.codec import encode
from yarnam.wire.credentials import new_credentials
from yarnam.wire.records import AmRecord, JobRecord

CREDENTIALS = new_credentials()
QUICK = ClientTiming(
    poll_s=0.01, yarn_poll_s=0.01, process_poll_s=0.02, aggregation_limit_s=0.0, nodes_s=0.5
)
APPLICATION = "application_1700000000000_0042"

SITE_FILES = {
    "core-site.xml": {"fs.defaultFS": "hdfs://memory"},
    "hdfs-site.xml": {},
    "yarn-site.xml": {"yarn.resourcemanager.hostname": "rm.example"},
    "resource-types.xml": {"yarn.resource-types": "yarn.io/gpu"},
}


def job_spec(**changes: Any) -> JobSpec:
    role = RoleSpec("worker", 2, Resources(4096, 2, 4), ("python3", "train.py"), 4)
    job = JobSpec("hello", "root.dl", "me", "command", (role,))
    return replace(job, **changes)


def status(state: JobState = JobState.RUNNING, **changes: Any) -> JobStatus:
    base = JobStatus(
        application=APPLICATION,
        name="hello",
        user="me",
        queue="root.dl",
        state=state,
        phase=state.value,
        attempt=1,
        max_attempts=10,
    )
    return replace(base, **changes)


def task(name: str, ranks: tuple[int, ...], address: str = "", **changes: Any) -> TaskStatus:
    return TaskStatus(name, f"a1.{name}", "started", ranks=ranks, log_address=address, **changes)


def verdict(kind: VerdictKind = VerdictKind.SUCCEEDED, code: int = 0, message: str = "") -> Verdict:
    return Verdict(kind, code, message, decided_at_s=2000.0)


@cache
def runtime_name() -> str:
    """The file name of the runtime archive for this environment."""
    return runtime_source().file_name


class World:
    """One user (``me``) on one cluster, with a runtime archive in the local cache. ``timing``: of
    the client, which is quick unless told otherwise."""

    def __init__(self, folder: Path, **timing: float) -> None:
        self.folder = folder
        self.files = MemoryFiles()
        self.files.mkdirs("/user/me")
        self.rm = FakeResourceManager()
        self.lines: list[FakeJobClient] = []
        self.line = FakeJobClient(status())
        self.launcher = FakeLauncher(self._accept)
        conf = folder / "conf"
        conf.mkdir(parents=True)
        for name, settings in SITE_FILES.items():
            rows = "".join(
                f"<property><name>{key}</name><value>{value}</value></property>"
                for key, value in settings.items()
            )
            (conf / name).write_text(f"<configuration>{rows}</configuration>")
        self.site = Site(
            conf_dir=conf,
            user="me",
            rm=self.rm,
            files=self.files,
            open_launcher=lambda: self.launcher,
            open_job_client=self._open_line,
            cache=folder / "cache",
            environ={"PATH": str(folder / "bin")},
            timing=replace(QUICK, **timing),
        )
        for archive in (
            self.site.cache / "runtime" / runtime_name(),
            self.site.cache / "interpreters" / own_interpreter().file_name,
        ):
            archive.parent.mkdir(parents=True, exist_ok=True)
            archive.write_bytes(b"archive")
        self.client = Client(site=self.site)

    def job(self, *, state: str = "RUNNING", am: bool = True, key: str = "", **facts: Any) -> Job:
        """A job that was submitted, with its directory."""
        key = key or new_key()
        application = facts.pop("application", APPLICATION)
        self.rm.add(application, state=state, tags=("yarnam", tag_of(key)), **facts)
        record = JobRecord(job_spec(), (), self.directory(key), 1000.0, "0")
        self.put(key, "job.json", encode(record))
        self.put(key, "credentials.pem", CREDENTIALS)
        if am:
            self.put(key, "am.json", encode(AmRecord(application, 1, "n1", 4711)))
        return self.client.job(application)

    def directory(self, key: str) -> str:
        return self.site.paths.job(key)

    def put(self, key: str, name: str, content: bytes) -> None:
        self.files.write_bytes(f"{self.directory(key)}/{name}", content, overwrite=True)

    def left_on_hdfs(self) -> list[str]:
        """Every file, but for the runtime archives, which are meant to stay."""
        return [
            entry.path
            for entry in self.files.walk("/")
            if not entry.is_dir and "/runtime/" not in entry.path
        ]

    def json_of(self, path: str) -> Any:
        return json.loads(self.files.read_bytes(path))

    def _open_line(self, address: str, credentials: bytes) -> FakeJobClient:
        assert address == "n1:4711"
        assert credentials == CREDENTIALS
        self.lines.append(self.line)
        return self.line

    def _accept(self, application: str, spec: Any) -> None:
        self.rm.add(
            application, state="ACCEPTED", name=spec.name, queue=spec.queue, tags=tuple(spec.tags)
        )
