"""The job's environment, tried in one container: a small job that imports what the code imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_record
from yarnam.client.environments.programs import environment_probe
from yarnam.core.model.job_spec import (
    CheckpointSpec,
    JobSpec,
    PlacementSpec,
    PreRunSpec,
    RetrySpec,
    RoleSpec,
    ShippedFile,
)

PROBE_NAME = "yarnam-env-probe.py"
MAX_REPORT_BYTES = 1 << 20
MOST_FILES = 2000
"""The most files of the code directory; with more it is not training code but an environment."""

_STANDARD = frozenset(sys.stdlib_module_names)
_SHIPPED = frozenset({"yarnam"})
"""``yarnam.train`` is on every job's path."""


@dataclass(frozen=True, slots=True)
class EnvironmentReport:
    """The probe's findings in the container. ``modules`` gives versions by name (empty without
    one), ``missing`` gives reasons by name, and ``gpus`` gives GPU names by the component that sees
    them (driver, torch, jax)."""

    python: str
    executable: str
    node: str
    modules: Mapping[str, str]
    missing: Mapping[str, str]
    gpus: Mapping[str, tuple[str, ...]]


def imported_modules(job: JobSpec) -> tuple[str, ...]:
    """Top-level names that the job's own Python files import and that are neither the standard
    library's nor files of the job. A file that is no Python is passed over."""
    wanted: set[str] = set()
    own: set[str] = set()
    for file in job.files:
        source = Path(file.source)
        if "://" in file.source or file.is_archive:
            continue
        root = source if source.is_dir() else source.parent
        for path in _python_files(source):
            own.update(path.relative_to(root).with_suffix("").parts[:1])
            wanted.update(_imports(path))
    return tuple(sorted(wanted - own - _STANDARD - _SHIPPED))


def check_job(job: JobSpec, modules: Iterable[str]) -> JobSpec:
    """The small job: one task of the first role's size with at most one GPU, which reads and writes
    no data."""
    first = job.roles[0]
    size = first.resources
    role = RoleSpec(
        name="worker",
        tasks=1,
        resources=replace(size, gpus=min(size.gpus, 1)),
        command=("python3", PROBE_NAME, *modules),
        env=first.env,
    )
    probe = ShippedFile(PROBE_NAME, str(environment_probe.__file__))
    return replace(
        job,
        name=f"{job.name[:80]}-env-check",
        framework="command",
        roles=(role,),
        files=(*job.files, probe),
        inputs=(),
        output="",
        checkpoint=CheckpointSpec(),
        placement=replace(
            PlacementSpec(),
            node_label=job.node_label(first.name),
            include_nodes=job.placement.include_nodes,
            exclude_nodes=job.placement.exclude_nodes,
        ),
        retry=RetrySpec(max_restarts=0),
        pre_run=PreRunSpec(),
        flexible_shape=False,
        idempotency_key="",
        notify=(),
    )


def read_report(output: bytes) -> EnvironmentReport | None:
    """Read the output of the probe; ``None`` if it has printed nothing, or its line is damaged."""
    mark = environment_probe.MARK.encode()
    _, found, rest = output.partition(mark)
    if not found:
        return None
    try:
        plain = decode_record(rest.partition(b"\n")[0], max_bytes=MAX_REPORT_BYTES).plain
        modules: Mapping[str, Any] = plain["modules"]
        return EnvironmentReport(
            python=str(plain["python"]),
            executable=str(plain["executable"]),
            node=str(plain["node"]),
            modules={n: str(m["version"]) for n, m in modules.items() if "version" in m},
            missing={n: str(m["error"]) for n, m in modules.items() if "version" not in m},
            gpus={str(n): tuple(map(str, seen)) for n, seen in plain["gpus"].items()},
        )
    except (MalformedData, LookupError, TypeError, AttributeError):
        return None


def _python_files(source: Path) -> Iterator[Path]:
    if source.is_file():
        if source.suffix == ".py":
            yield source
        return
    for number, path in enumerate(sorted(source.rglob("*.py"))):
        if number == MOST_FILES:
            return
        if not any(part.startswith(".") for part in path.relative_to(source).parts):
            yield path


def _imports(path: Path) -> Iterator[str]:
    """Imports at the top of a module, not those in functions: these may be for other machines."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
