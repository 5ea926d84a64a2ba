"""dask-yarn: a cluster as ``yarn.yaml`` describes it, as a job of a scheduler and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yarnam.errors import BadSpec
from yarnam.spec.importers.conversion import (
    Conversion,
    Source,
    flat,
    job_name,
    listed,
    mapping,
    memory,
    queue_name,
)

_DROPPED = {
    r"specification": "a specification of Skein's is converted by hand",
    r"deploy-mode": "the scheduler runs on the cluster",
    r"(host|port|dashboard-address)": "the scheduler listens where yarnam has reserved a port",
    r"user": "the job is the submitting user's",
    r"client\..*": "no process of the user's own runs beside the cluster; submit it as a role",
    r"worker\.restarts": "a gang is restarted as a whole: see `retry`",
    r"worker\.(worker_class|worker_options\..*)": "options of `dask worker` belong into "
    "the command",
}
"""Patterns of the keys that are dropped, and why."""

SCHEDULER = "dask scheduler --host $YARNAM_ADDRESS --port $YARNAM_COORDINATOR_PORT"
"""Rank 0, whose address every process of the gang knows."""
WORKER = (
    "dask worker tcp://$YARNAM_COORDINATOR_ADDRESS --host $YARNAM_ADDRESS --nthreads {vcores} "
    "--memory-limit {memory}"
)


def convert(document: Mapping[str, Any], what: str) -> Conversion:
    """The spec of a Dask cluster. Raises BadSpec: unknown keys, or no number of workers."""
    tree = document.get("yarn", document)
    if not isinstance(tree, Mapping):
        raise BadSpec(f"{what}: `yarn` is no mapping")
    source = Source(what, flat(tree, stop=("worker.env", "client.env")))
    count = source.whole("worker.count", 0)
    if count < 1:
        raise BadSpec(
            f"{what}: worker.count says of no worker", hint="A gang has its size from the start."
        )
    environment = str(source.take("environment") or "")
    worker = _role(source, "worker", count)
    worker["command"] = WORKER.format(vcores=worker["vcores"], memory=worker["memory"])
    env = mapping(f"{what}: worker.env", source.take("worker.env"))
    if env:
        worker["env"] = {name: str(value) for name, value in env.items()}
    scheduler = {**_role(source, "scheduler", 1), "command": SCHEDULER}
    for pattern, why in _DROPPED.items():
        source.drop_all(pattern, why)
    spec = {
        "version": 1,
        "name": job_name(str(source.take("name") or "dask")),
        "queue": queue_name(str(source.take("queue") or "default")),
        "environment": _environment(environment),
        "roles": {"scheduler": scheduler, "worker": worker},
        "tags": [str(tag) for tag in listed(f"{what}: tags", source.take("tags"))],
    }
    return source.finish(spec)


def _role(source: Source, name: str, tasks: int) -> dict[str, Any]:
    return {
        "tasks": tasks,
        "gpus": source.whole(f"{name}.gpus", 0),
        "vcores": source.whole(f"{name}.vcores", 1),
        "memory": memory(_gib(str(source.take(f"{name}.memory", "2GiB")))),
        "processes": "per-task",
    }


def _gib(text: str) -> str:
    """Dask writes ``2 GiB`` as well as ``2GB``; YARN counts both in binary units."""
    return text.replace(" ", "")


def _environment(text: str) -> dict[str, str]:
    """``venv://`` and ``conda://`` name what is on the nodes; all else is an archive."""
    if not text:
        return {}
    kind, sign, path = text.partition("://")
    if sign and kind in ("venv", "conda"):
        return {"python": f"{path.rstrip('/')}/bin/python"}
    if sign and kind == "python":
        return {"python": path}
    return {"archive": text}
