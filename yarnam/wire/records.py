"""The JSON records of a job's directory on HDFS."""

from __future__ import annotations

from dataclasses import dataclass

from yarnam.model.job import JobSpec
from yarnam.model.placement import Target
from yarnam.wire.protocol import RECORD_VERSION


@dataclass(frozen=True, slots=True)
class JobRecord:
    """``job.json``: written once by the client, read by the AM, the agents and later clients.

    Carries no secret: values of ``secret_env`` travel in the containers' private files only.
    """

    job: JobSpec
    targets: tuple[Target, ...]
    """The Skein services declared at submit; the planner may use these only."""
    job_dir: str
    """hdfs:// URI of the job's directory."""
    submitted_at_s: float
    yarnam_version: str
    rm_url: str = ""
    """http(s)://host:port of the ResourceManager's REST API as the client reached it."""
    version: int = RECORD_VERSION


@dataclass(frozen=True, slots=True)
class AmRecord:
    """``am.json``: where the living AM attempt answers."""

    application: str
    am_attempt: int
    host: str
    port: int
    pid: int = 0
    version: int = RECORD_VERSION
