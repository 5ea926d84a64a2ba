"""From a JobRecord to the Skein application that runs it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import skein
import yaml

from skein_specs.interceptor import ENV_RPC_CLASS, RPC_CLASS
from yarnam.core.inputs.named_file_systems import named_file_systems
from yarnam.core.model.job_spec import ContainerImage, JobSpec, users_and_groups
from yarnam.core.model.plans import LocalityLevel, Target
from yarnam.core.model.resources import Resources
from yarnam.wire.protocol import (
    APPLICATION_TAG,
    ENV_JOB_DIR,
    ENV_SERVICE,
    LOCAL_INTERCEPTOR_FILE,
)
from yarnam.wire.records import JobRecord

AM_MODULE = "yarnam.cli.containers.am_process"
AGENT_MODULE = "yarnam.cli.containers.agent_process"


@dataclass(frozen=True, slots=True)
class LocalizedFile:
    """A file or archive that YARN puts into a container under the name it is given.

    ``source`` is an URI on the cluster's default file system (used in place) or a local path
    (Skein uploads it into the application's own directory: slow, one file at a time).
    ``visibility`` is APPLICATION, PRIVATE (kept on the node for this user's later jobs) or PUBLIC
    (for everybody's; the file must be world-readable on HDFS). ``size_bytes`` and
    ``modified_ms`` may be left 0: Skein then asks the file system.
    """

    source: str
    kind: Literal["file", "archive"] = "file"
    visibility: Literal["APPLICATION", "PRIVATE", "PUBLIC"] = "APPLICATION"
    size_bytes: int = 0
    modified_ms: int = 0


def application_spec(
    record: JobRecord,
    *,
    am_files: Mapping[str, LocalizedFile],
    task_files: Mapping[str, LocalizedFile],
    security: skein.Security,
    tags: Iterable[str] = (),
    node_python: str = "",
    client_python: str = "",
    python_version: str = "",
) -> skein.ApplicationSpec:
    """The Skein application of this job: the AM, and one service per target, without instances but
    for the record's early ones.

    ``am_files`` and ``task_files`` are by name in the container's working directory; both need at
    least the names of ``yarnam.wire.protocol`` (LOCAL_JOB_FILE, LOCAL_CREDENTIALS_FILE,
    LOCAL_RUNTIME as an archive, LOCAL_HADOOP_CONF as an archive). Every task file costs one
    question to the NameNode per service at submit.

    ``python_version`` (as in "3.11") is the one the runtime archive was built for; by default
    that of this process. ``node_python`` is the first interpreter tried on the nodes, for the AM
    and for the agents; ``client_python``, this machine's, is the second, and taken only where no
    other user of the node can have put it there. ``security`` must be the job's own
    (``skein.Security.new_credentials()``).

    Raises ValueError when Skein finds the specification impossible (a bad file name, no memory).
    """
    template = yaml.safe_load(_text("application.yaml"))
    version = python_version or f"{sys.version_info[0]}.{sys.version_info[1]}"
    job = record.job
    shared_env = {ENV_JOB_DIR: record.job_dir}
    if node_python:
        shared_env["YARNAM_NODE_PYTHON"] = node_python
    if client_python:
        shared_env["YARNAM_CLIENT_PYTHON"] = client_python

    master = dict(template["master"])
    master["env"] = {**master["env"], **shared_env}
    if LOCAL_INTERCEPTOR_FILE in am_files:
        master["env"][ENV_RPC_CLASS] = RPC_CLASS
    service = dict(template["service"])
    service["env"] = {**service["env"], **shared_env}
    if job.environment.image is not None:
        service["env"] |= container_runtime(job.environment.image)
    service["script"] = launch_script(AGENT_MODULE, version)

    early = {ask.service: len(ask.nodes) for ask in record.prelaunched}
    return skein.ApplicationSpec(
        name=job.name,
        queue=job.queue,
        tags={APPLICATION_TAG, *tags},
        max_attempts=job.am.attempts,
        acls=_acls(job),
        file_systems=[*named_file_systems(job)],
        master=skein.Master(
            resources=_resources(job.am.resources),
            script=am_script(AM_MODULE, version),
            files=_files(am_files),
            security=security,
            **master,
        ),
        services={
            target.service: _service(
                target,
                service,
                task_files,
                instances=early.get(target.service, 0),
                node_label=job.node_label(target.role),
            )
            for target in record.targets
        },
    )


def _acls(job: JobSpec) -> skein.ACLs:
    """YARN's own ACLs of the application, which its containers have too. Without entries YARN lets
    in its owner and administrators alone, so none are sent."""
    if not job.acls:
        return skein.ACLs()
    view_users, view_groups = users_and_groups(job.acls.view)
    modify_users, modify_groups = users_and_groups(job.acls.modify)
    return skein.ACLs(
        enable=True,
        view_users=view_users,
        view_groups=view_groups,
        modify_users=modify_users,
        modify_groups=modify_groups,
        # Skein's own pages, which YARN's proxy shows until the job's page is announced. Skein would
        # let in the account of its container alone; it knows no groups.
        ui_users=[job.user, *view_users],
    )


def container_runtime(image: ContainerImage) -> dict[str, str]:
    """Variables by which a NodeManager starts a container from an image: the names of
    Hadoop's ContainerRuntimeConstants, DockerLinuxContainerRuntime and RuncContainerRuntime. YARN
    mounts the container's own directories and localized files, so the agent and its interpreter
    come along; its GPU plug-in adds the devices."""
    kind = image.runtime.value
    found = {
        "YARN_CONTAINER_RUNTIME_TYPE": kind,
        f"YARN_CONTAINER_RUNTIME_{kind.upper()}_IMAGE": image.name,
    }
    if image.mounts:
        found[f"YARN_CONTAINER_RUNTIME_{kind.upper()}_MOUNTS"] = ",".join(image.mounts)
    return found


def launch_script(module: str, python_version: str) -> str:
    """The bash script that becomes ``python -m module`` under a Python of that version."""
    text = _text("launch.sh")
    return text.replace("@MODULE@", module).replace("@PYTHON_VERSION@", python_version)


def am_script(module: str, python_version: str) -> str:
    """The bash script that Skein's Java AM starts: the one above in a child process, whose failure
    ends Java."""
    return _text("launch_am.sh").replace("@LAUNCH@", launch_script(module, python_version))


def _service(
    target: Target,
    pattern: Mapping[str, Any],
    files: Mapping[str, LocalizedFile],
    *,
    instances: int,
    node_label: str,
) -> skein.Service:
    nodes = [str(node) for node in target.nodes] if target.level is LocalityLevel.NODE else []
    racks = [str(rack) for rack in target.racks] if target.level is LocalityLevel.RACK else []
    # Skein keeps and changes what it is given: each service gets containers of its own.
    return skein.Service(
        resources=_resources(target.resources),
        nodes=nodes,
        racks=racks,
        node_label=node_label,
        files=_files(files),
        instances=instances,
        **{**pattern, "env": {**pattern["env"], ENV_SERVICE: target.service}},
    )


def _resources(amount: Resources) -> skein.Resources:
    return skein.Resources(memory=amount.memory_mib, vcores=amount.vcores, gpus=amount.gpus)


def _files(files: Mapping[str, LocalizedFile]) -> dict[str, skein.File]:
    return {
        name: skein.File(
            source=file.source,
            type=file.kind.upper(),
            visibility=file.visibility,
            size=file.size_bytes,
            timestamp=file.modified_ms,
        )
        for name, file in files.items()
    }


def _text(name: str) -> str:
    return resources.files("skein_specs").joinpath(name).read_text(encoding="utf-8")
