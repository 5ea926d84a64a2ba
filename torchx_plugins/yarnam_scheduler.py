"""TorchX's scheduler of yarnam: ``torchx run -s yarnam`` submits an app as a job on YARN.

Not a room of yarnam: it runs in TorchX's own process, and TorchX calls nobody else's.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from torchx.schedulers.api import DescribeAppResponse, ListAppResponse, Scheduler, Stream
from torchx.specs import (
    AppDef,
    AppDryRunInfo,
    AppState,
    ReplicaStatus,
    Role,
    RoleStatus,
    macros,
    runopts,
)

import yarnam
from yarnam.cli.rendering.console import is_terminal, process_line
from yarnam.client import Job
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.printable import printable
from yarnam.spec.yaml_tree import plain_document

BACKEND = "yarnam"
COORDINATOR = "YARNAM_COORDINATOR_HOST"

STATES = {
    JobState.QUEUED: AppState.PENDING,
    JobState.PRE_RUN: AppState.PENDING,
    JobState.ACQUIRING: AppState.PENDING,
    JobState.STAGING: AppState.PENDING,
    JobState.LAUNCHING: AppState.PENDING,
    JobState.REPLACING: AppState.RUNNING,
    JobState.RUNNING: AppState.RUNNING,
    # TorchX has no state for it: the job holds nothing and waits for `yarnam resume`.
    JobState.SUSPENDED: AppState.PENDING,
    JobState.STORING: AppState.RUNNING,
    JobState.SUCCEEDED: AppState.SUCCEEDED,
    JobState.FAILED: AppState.FAILED,
    JobState.CANCELLED: AppState.CANCELLED,
}
TASK_STATES = {
    "asked": AppState.PENDING,
    "granted": AppState.PENDING,
    "ready": AppState.PENDING,
    "started": AppState.RUNNING,
    "lost": AppState.FAILED,
}

MAX_LINE = 1 << 20
"""Bytes: a longer one is handed on in parts."""

_INDEX = "@YARNAM_TASK_INDEX@"
_WITH_INDEX = f'exec "${{@//{_INDEX}/$YARNAM_TASK_INDEX}}"'
"""Bash: the command, with the replica's number wherever TorchX's macro stood."""


class YarnamScheduler(Scheduler[Any]):
    """A role is a role, a replica a task with one process. All of an app's replicas start together
    or not at all."""

    def __init__(self, session_name: str, conf_dir: str | None = None) -> None:
        super().__init__(BACKEND, session_name)
        self._client = yarnam.Client(conf_dir)

    def close(self) -> None:
        self._client.close()

    def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> str:
        return str(self._client.submit(dryrun_info.request).id)

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        job = self._job(app_id)
        if job is None:
            return None
        status = job.status()
        return DescribeAppResponse(
            app_id=app_id,
            state=STATES[status.state],
            num_restarts=max(0, status.attempt - 1),
            msg=printable(status.verdict.message if status.verdict else status.reason),
            ui_url=printable(status.tracking_url) or None,
            roles=[
                Role(name=role.name, image="", num_replicas=role.tasks)
                for role in job.record().job.roles
            ],
            roles_statuses=_role_statuses(status),
        )

    def list(self) -> list[ListAppResponse]:
        jobs = self._client.jobs(include_ended=True)
        return [ListAppResponse(job.application, STATES[job.state]) for job in jobs]

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterable[str]:
        """The output of one replica. ``since`` and ``until`` are not looked at: lines have no
        times. Raises ValueError: both streams are one file."""
        if streams not in (None, Stream.COMBINED):
            raise ValueError("yarnam has both streams in one log: --streams combined")
        lines = _lines(self._client.job(app_id), f"{role_name}-{k}", follow=should_tail)
        if regex is None:
            return lines
        import re

        wanted = re.compile(regex)
        return (line for line in lines if wanted.search(line))

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("queue", type_=str, help="YARN's queue", required=True)
        options.add(
            "spec", type_=str, default="",
            help="a file with further keys of yarnam's spec: environment, placement, data, ...",
        )  # fmt: skip
        options.add(
            "code", type_=str, default="", help="a directory that each task gets as its code/"
        )
        options.add("python", type_=str, default="", help="the interpreter on the nodes")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: Any) -> AppDryRunInfo[Any]:
        return AppDryRunInfo(spec_of(app, cfg), lambda spec: str(yaml.safe_dump(spec)))

    def _cancel_existing(self, app_id: str) -> None:
        self._client.job(app_id).kill("cancelled by torchx")

    def _job(self, app_id: str) -> Job | None:
        if not app_id.startswith("application_"):
            return None
        try:
            job = self._client.job(app_id)
            job.status()
        except yarnam.errors.UsageError:
            return None
        return job


def create_scheduler(session_name: str, **options: Any) -> YarnamScheduler:
    """The entry point. ``conf_dir`` of the options: Hadoop's configuration."""
    return YarnamScheduler(session_name, options.get("conf_dir"))


def spec_of(app: AppDef, cfg: Any) -> dict[str, Any]:
    """The app as yarnam's spec. Raises ValueError for what a job on YARN cannot be."""
    spec: dict[str, Any] = {}
    if cfg.get("spec"):
        spec = _base_spec(cfg["spec"])
    spec |= {"version": 1, "name": app.name, "queue": cfg["queue"]}
    if cfg.get("code"):
        spec["code"] = cfg["code"]
    if cfg.get("python"):
        spec["environment"] = {"python": cfg["python"]}
    values = macros.Values(
        img_root="", app_id=f"{app.name}-{secrets.token_hex(4)}", replica_id=_INDEX,
        rank0_env=COORDINATOR,
    )  # fmt: skip
    spec["roles"] = {role.name: _role(values.apply(role)) for role in app.roles}
    retries = max(role.max_retries for role in app.roles)
    spec.setdefault("retry", {"max_restarts": retries})
    return spec


def _base_spec(path: str) -> dict[str, Any]:
    try:
        found = plain_document(Path(path).read_text(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read the spec {path}: {error}") from None
    except yarnam.errors.YarnamError as error:
        raise ValueError(str(error)) from None
    if found is not None and not isinstance(found, dict):
        raise ValueError(f"the spec {path} is not a mapping of keys")
    return dict(found or {})


def _role(role: Role) -> dict[str, Any]:
    if role.mounts:
        raise ValueError(f"role {role.name} has mounts: yarnam's `environment` has them")
    if any(_INDEX in value for value in role.env.values()):
        raise ValueError(f"role {role.name} has its replica's number in env: YARNAM_TASK_INDEX is")
    command = [role.entrypoint, *role.args]
    if any(_INDEX in part for part in command):
        command = ["bash", "-c", _WITH_INDEX, role.name, *command]
    least = role.min_replicas or role.num_replicas
    is_elastic = least != role.num_replicas
    made: dict[str, Any] = {
        "tasks": {"min": least, "max": role.num_replicas} if is_elastic else role.num_replicas,
        "command": command,
        "env": dict(role.env),
        "processes": "per-task",
    }
    resource = role.resource
    if resource.gpu > 0:
        made["gpus"] = resource.gpu
    if resource.cpu > 0:
        made["vcores"] = resource.cpu
    if resource.memMB > 0:
        made["memory"] = f"{resource.memMB} MiB"
    return made


def _role_statuses(status: JobStatus) -> list[RoleStatus]:
    roles: dict[str, list[ReplicaStatus]] = {}
    for task in status.tasks:
        role, _, index = task.task.rpartition("-")
        state = TASK_STATES.get(task.state, STATES[status.state])
        roles.setdefault(role, []).append(
            ReplicaStatus(int(index) if index.isdecimal() else 0, state, role, task.node)
        )
    return [RoleStatus(role, replicas) for role, replicas in roles.items()]


def _lines(job: Job, task: str, *, follow: bool) -> Iterable[str]:
    """TorchX prints them as they are: a terminal is to obey none of them."""
    held = b""
    for piece in job.logs(task, follow=follow):
        if piece.is_note:
            continue
        *lines, held = (held + piece.data).split(b"\n")
        yield from (f"{_shown(line)}\n" for line in lines)
        if len(held) > MAX_LINE:
            yield _shown(held)
            held = b""
    if held:
        yield _shown(held)


def _shown(line: bytes) -> str:
    return (process_line(line) if is_terminal() else line).decode("utf-8", "replace")
