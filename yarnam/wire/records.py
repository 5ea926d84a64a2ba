"""The JSON records of a job's directory on HDFS."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from yarnam.core.model.gpu_names import NO_RULES, GpuModelRules
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import PrelaunchedService, Target
from yarnam.core.model.snapshot import NO_DATA, BytesByNode
from yarnam.wire.codec import encode
from yarnam.wire.protocol import RECORD_VERSION


@dataclass(frozen=True, slots=True)
class JobRecord:
    """``job.json``: written once by the client, read by the AM, the agents and later clients.
    Carries no secret: values of ``secret_env`` travel in the containers' private files only."""

    job: JobSpec
    targets: tuple[Target, ...]
    """The Skein services declared at submit; the planner may use these only."""
    job_dir: str
    """hdfs:// URI of the job's directory."""
    submitted_at_s: float
    yarnam_version: str
    rm_url: str = ""
    """http(s)://host:port of the ResourceManager's REST API as the client reached it."""
    zookeeper: str = ""
    """``host:port,host:port/root`` of the ZooKeeper with the ticket queue, if any."""
    gpu_models: GpuModelRules = NO_RULES
    """The administrators' facts about nodes' GPUs when the job was submitted."""
    data: BytesByNode = NO_DATA
    """Where the inputs lay then."""
    prelaunched: tuple[PrelaunchedService, ...] = ()
    """The first rung's containers, which need not wait for the AM's Python: there was spare
    capacity at submit, and no job waited."""
    stored: tuple[str, ...] = ()
    """URIs of the archives that it shares with other jobs: runtime, interpreter, environment."""
    version: int = RECORD_VERSION

    @property
    def key(self) -> str:
        """The job's own name among all: the last part of its directory."""
        return self.job_dir.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class AmRecord:
    """``am.json``: where the living AM attempt answers."""

    application: str
    am_attempt: int
    host: str
    port: int
    pid: int = 0
    replaced_from_s: float | None = 0.0
    """From when on another attempt follows if this one fails; ``None`` if none does."""
    version: int = RECORD_VERSION


@dataclass(frozen=True, slots=True)
class TicketRecord:
    """``ticket.json``: the job's number in the ticket queue, and since when it has it."""

    number: int
    taken_at_s: float
    version: int = RECORD_VERSION


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """The job of an idempotency key: the key of its directory, and its application; empty if YARN
    has not accepted it yet, or its acceptance is unknown."""

    key: str
    application: str = ""
    version: int = RECORD_VERSION
    submitter: str = ""
    """The process that submits, if its end is the end of its submit; empty if unknown. See
    ``yarnam.adapters.submitter``."""


@dataclass(frozen=True, slots=True)
class PreRunRecord:
    """``pre-runs/<key>``: a program has passed its pre-run. ``key``: see ``PreRunSpec``."""

    key: str
    application: str
    passed_at_s: float
    step_s: float | None = None
    """As in ``PreRunStatus``."""
    peak_memory_mib: int | None = None
    version: int = RECORD_VERSION


@dataclass(frozen=True, slots=True)
class NotifyUrls:
    """``notify-urls.json``: the URLs of the job's notifications, in the order of its spec."""

    urls: tuple[str, ...]
    version: int = RECORD_VERSION


@dataclass(frozen=True, slots=True)
class NotifiedRecord:
    """``notified.json``: the notifications that have been sent, as number of the channel and
    state, or finding and attempt."""

    sent: tuple[tuple[int, str], ...] = ()
    version: int = RECORD_VERSION


@dataclass(frozen=True, slots=True)
class InputEpochs:
    """The exclusions of one input's epochs: ``lists`` of paths relative to its URI, and for each
    epoch that has begun the number of its list."""

    input: str
    lists: tuple[tuple[str, ...], ...] = ()
    epochs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class EpochsRecord:
    """``input-epochs.json``: decided for good, whatever becomes known later."""

    inputs: tuple[InputEpochs, ...] = ()
    version: int = RECORD_VERSION


def spec_digest(job: JobSpec) -> str:
    """SHA-256 of the job as recorded, in hex: the same if any user submits the same job again,
    under any idempotency key."""
    pre_run = replace(job.pre_run, is_due=False, key="")
    plain = replace(job, user="", idempotency_key="", pre_run=pre_run)
    return hashlib.sha256(encode(plain)).hexdigest()


@dataclass(frozen=True, slots=True)
class KeptSeries:
    """One metric over time: pairs of the time (seconds since the epoch) and the value."""

    name: str
    points: tuple[tuple[float, float], ...]
    unit: str = ""


@dataclass(frozen=True, slots=True)
class SeriesRecord:
    """``series.json``: what the job's page shows over time, for the next ApplicationMaster."""

    series: tuple[KeptSeries, ...]
    version: int = RECORD_VERSION
