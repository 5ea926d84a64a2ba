"""An agent reads these when it starts: its environment, the job's record and credentials.

The record is read from plain JSON: structuring all of it would load a quarter of the agent's memory
and half of its start-up time for a handful of fields. A test holds it against ``wire.records``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_record, read_at_most
from yarnam.agent.machine.agent_state import TaskFacts
from yarnam.core.frameworks.registry import framework_named
from yarnam.core.model.ids import PRE_RUN_ROLE, AskId, leading_role, parse_ask_id
from yarnam.errors import BadConfig, WireMismatch
from yarnam.wire.protocol import (
    ENV_AM_ADDRESS,
    ENV_ASK,
    ENV_NODE_GPU_MODEL,
    ENV_NODE_GPUS,
    ENV_SERVICE,
    HELD_CALLS,
    LOCAL_CREDENTIALS_FILE,
    LOCAL_JOB_FILE,
    LOCAL_SECRETS_FILE,
    RECORD_VERSION,
)


class ContainerSettings(NamedTuple):
    """One container. Addresses are host:port."""

    directory: Path
    """The container's working directory."""
    ask: AskId
    service: str
    """The Skein service that the container was started for; may be empty."""
    am_address: str
    container: str
    node: str
    """NM_HOST."""
    node_key: str
    """NM_HOST:NM_PORT; tells NodeManagers on one machine apart."""
    nm_http_address: str
    log_directory: Path
    node_gpus: str
    node_gpu_model: str

    @property
    def am_attempt(self) -> int:
        """The AM attempt that asked for the container, from its id; 1 when it is none."""
        parts = self.container.split("_")
        return int(parts[-2]) if len(parts) > 3 and parts[-2].isdecimal() else 1

    @property
    def application(self) -> str:
        """The application id that YARN put into the container id; empty when it is none."""
        parts = self.container.removeprefix("container_").split("_")
        if parts and parts[0].startswith("e"):
            parts = parts[1:]
        return f"application_{parts[0]}_{parts[1]}" if len(parts) == 4 else ""


def read_container_settings(env: Mapping[str, str], directory: Path) -> ContainerSettings:
    """Raises BadConfig when this is not a container of a job."""
    try:
        ask = parse_ask_id(env[ENV_ASK])
        am_address, container, node = env[ENV_AM_ADDRESS], env["CONTAINER_ID"], env["NM_HOST"]
    except KeyError as error:
        raise BadConfig(
            f"the environment variable {error.args[0]} is missing",
            hint="The agent runs in containers that yarnam's ApplicationMaster asked YARN for.",
        ) from error
    except ValueError as error:
        raise BadConfig(f"{ENV_ASK}={env[ENV_ASK]!r} is not the name of an ask") from error
    logs = env.get("LOG_DIRS", "").split(",")[0]
    return ContainerSettings(
        directory=directory,
        ask=ask,
        service=env.get(ENV_SERVICE) or env.get("SKEIN_CONTAINER_ID", "").rpartition("_")[0],
        am_address=am_address,
        container=container,
        node=node,
        node_key=f"{node}:{env.get('NM_PORT', '0')}",
        nm_http_address=f"{node}:{env.get('NM_HTTP_PORT', '0')}",
        log_directory=Path(logs) if logs else directory,
        node_gpus=env.get(ENV_NODE_GPUS, ""),
        node_gpu_model=env.get(ENV_NODE_GPU_MODEL, ""),
    )


def environment_of_container() -> dict[str, str]:
    """The container's environment as text that gives the same bytes back (``keeper.to_bytes``)."""
    return {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in os.environb.items()
    }


class TaskJob(NamedTuple):
    """Times in seconds. ``env`` is the job's and the role's, secrets filled in; ``secrets`` are
    the values of these."""

    name: str
    user: str
    framework: str
    """Holds the ports, as the AM counts them."""
    runs_as: str
    """The framework of its processes; ``command`` for a role that the job's does not know."""
    role: str
    command: tuple[str, ...]
    processes: int
    gpus: int
    port_labels: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]
    files: tuple[str, ...]
    """Names of the shipped files in the container's directory."""
    python: str
    has_environment: bool
    """An archive with the user's Python is unpacked as ``environment``."""
    has_inputs: bool
    is_staged: bool
    """Some of them are brought to the node."""
    cache_max_bytes: int
    """At most; 0 leaves it to the node's disks."""
    readers: tuple[tuple[str, int], ...]
    """Roles and the processes of all their tasks, as the spec has them; 0 of services."""
    spool_limit_s: float
    """How long a checkpoint may wait on the node's disk; 0 if none does."""
    orphan_timeout_s: float
    stop_grace_s: float
    failure_grace_s: float
    ready_port: str = ""
    """Name of the port by which its processes are ready; empty if they report it themselves."""
    rules: tuple[Mapping[str, object], ...] = ()
    """The job's own rules for failures, as plain values."""
    tasks: int = 1
    """The tasks of the whole gang."""
    mirror: str = ""
    """The directory of the working directory that is kept on HDFS; empty if none is."""
    is_each_mirrored: bool = False
    """By every task, and not only by that of rank 0."""
    keep: int = 3
    """How many checkpoints are kept."""
    is_interactive: bool = True
    """Whether clients may open sessions in it."""
    restore: str = "newest"
    """The checkpoint that the job's first attempt begins with."""
    absence_s: float = 0.0
    notebook: str = ""
    """The server of a job that is a notebook; empty for any other."""
    mirror_max_bytes: int = 0
    """The most that the directory which is kept on HDFS may hold; 0 if nothing limits it."""
    memory_bytes: int = 0
    """The container's memory."""
    keeps_copies: bool = False
    """Checkpoints stay in its memory as well."""
    is_tonys: bool = False
    """The job was written for TonY, which unpacks the environment as ``venv``."""


def facts_of(job: TaskJob) -> TaskFacts:
    """The facts on which the agent's decisions depend."""
    return TaskFacts(
        stop_grace_s=job.stop_grace_s,
        is_large=job.tasks > HELD_CALLS,
        has_inputs=job.has_inputs,
        has_gpus=job.gpus > 0,
        is_staged=job.is_staged,
        ready_port=job.ready_port,
        bare_ports=framework_named(job.framework).bare_ports,
    )


Plain = Mapping[str, Any]
"""A part of a record, as decoded from JSON."""

_NO_RECORD = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, StopIteration)


def read_task_job(record: Path, secrets: Path, role: str, service: str) -> TaskJob:
    """Raises BadConfig (file missing or damaged) and WireMismatch (another version wrote it)."""
    plain = _read_json(record)
    if plain.get("version") != RECORD_VERSION:
        raise WireMismatch(
            f"{record.name} has version {plain.get('version')}, this agent reads {RECORD_VERSION}",
            hint="Client and runtime are of two versions of yarnam: submit with the same one.",
        )
    values = _read_json(secrets) if secrets.exists() else {}
    try:
        return _task_job(plain, values, role, service)
    except _NO_RECORD as error:
        raise WireMismatch(f"{record.name} does not describe role {role!r}: {error!r}") from error


def _task_job(record: Plain, secrets: Mapping[str, str], role_name: str, service: str) -> TaskJob:
    job = record["job"]
    is_pre_run = role_name == PRE_RUN_ROLE
    if is_pre_run:
        trained = [role["name"] for role in job["roles"] if not role["service"]]
        role_name = leading_role(trained)
    role = next(role for role in job["roles"] if role["name"] == role_name)
    # The planner may have chosen another shape than the spec: the target is what was asked for.
    target = next((t for t in record["targets"] if service and t["service"] == service), None)
    size = target or role
    notebook = job.get("notebook") or {}
    env = dict((*job["env"], *role["env"]))
    return TaskJob(
        name=job["name"],
        user=job["user"],
        framework=job["framework"],
        runs_as=job["framework"] if is_pre_run or _is_known(job, role) else PLAIN,
        role=role["name"],
        command=tuple(role["command"]),
        processes=int(size["processes_per_task"]),
        gpus=int(size["resources"]["gpus"]),
        port_labels=tuple(role["ports"]),
        env=tuple((env | dict(secrets)).items()),
        secrets=tuple(secrets.values()),
        files=tuple(shipped["name"] for shipped in job["files"]),
        python=job["environment"]["python"],
        has_environment=bool(job["environment"]["archive"]),
        has_inputs=bool(job["inputs"]),
        is_staged=any(given["mode"] != "stream" for given in job["inputs"]),
        cache_max_bytes=int(job["staging"]["cache_max_mib"]) << 20,
        readers=tuple(
            (
                r["name"],
                0 if r["service"] or r["optional"] else r["tasks"] * r["processes_per_task"],
            )
            for r in job["roles"]
        ),
        spool_limit_s=float(job["checkpoint"]["spool_limit_s"]),
        orphan_timeout_s=float(job["am"]["orphan_timeout_s"]),
        absence_s=float(job["am"].get("absence_s", 0.0)),
        stop_grace_s=float(job["am"]["stop_grace_s"]),
        failure_grace_s=float(job["am"]["failure_grace_s"]),
        ready_port=role["ready"]["port"],
        rules=tuple(job["retry"].get("rules", ())),
        tasks=sum(int(each["tasks"]) for each in job["roles"]),
        mirror=job["checkpoint"].get("mirror", ""),
        is_each_mirrored=bool(job["checkpoint"].get("mirror_each")),
        keep=int(job["checkpoint"]["keep"]),
        restore=job["checkpoint"]["restore"],
        is_interactive=bool(job.get("interactive", True)),
        notebook=notebook.get("server", ""),
        mirror_max_bytes=int(notebook.get("max_size_mib", 0)) << 20,
        memory_bytes=int(size["resources"]["memory_mib"]) << 20,
        keeps_copies=bool(job["checkpoint"].get("in_memory"))
        and not (role["service"] or is_pre_run),
        is_tonys=job.get("compat", "") == "tony",
    )


PLAIN = "command"
"""The framework of a process that is run as it is."""


def _is_known(job: Plain, role: Plain) -> bool:
    framework = framework_named(job["framework"])
    return framework.knows(role["name"], is_auxiliary=role["service"] or role["optional"])


MAX_BYTES = 64 << 20
"""The largest record of a job: see ``wire.codec``, which an agent does without."""


def _read_json(path: Path) -> Plain:
    try:
        with path.open("rb") as file:
            return decode_record(read_at_most(file, MAX_BYTES), max_bytes=MAX_BYTES).plain
    except (OSError, MalformedData) as error:
        raise BadConfig(
            f"cannot read {path}: {error}",
            hint="YARN makes this file from the job's directory on HDFS; submit the job again.",
        ) from error


def read_job_files(settings: ContainerSettings) -> tuple[TaskJob, bytes]:
    """The job's record and credentials. Raises BadConfig, WireMismatch."""
    here = settings.directory
    job = read_task_job(
        here / LOCAL_JOB_FILE, here / LOCAL_SECRETS_FILE, settings.ask.role, settings.service
    )
    try:
        pem = (here / LOCAL_CREDENTIALS_FILE).read_bytes()
    except OSError as error:
        raise BadConfig(f"cannot read the job's credentials: {error}") from error
    return job, pem
