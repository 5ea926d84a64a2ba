"""Archives that submits have left on HDFS for later jobs: list them, and remove unused ones.

Who uses an archive is in the jobs' records. A submit makes its job's directory before it looks
whether an archive is there, and writes the record afterwards. So what is to be removed is first
renamed, and comes back if a job has appeared meanwhile that names it, or that has no record yet.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from hdfs_utils.errors import HdfsError, NotFound
from hdfs_utils.filesystem import FileStatus
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.yarn.pending_applications import LIVING
from yarnam.client.environments.environment_layers import FILE_PREFIX as LAYER_FILE_PREFIX
from yarnam.client.site import Site
from yarnam.client.user_paths import is_key, key_in
from yarnam.errors import Unavailable, YarnamError
from yarnam.wire import protocol
from yarnam.wire.codec import decode
from yarnam.wire.records import JobRecord

KINDS = {"yarnam-runtime-": "runtime", "yarnam-python-": "interpreter"}
"""Kinds by the start of the name; any other file beside the environments counts as one. Skein's jar
stays."""

PARALLEL_READS = 8
TRASH_SUFFIX = ".removing"


@dataclass(frozen=True, slots=True)
class StoredArchive:
    """One archive. Times in seconds since 1970; ``last_use_s`` is of the newest job that names it,
    or when it was made. ``used_by``: living jobs, by their keys."""

    name: str
    path: str
    kind: str
    size_bytes: int
    made_s: float
    last_use_s: float
    used_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Uses:
    """Which archives the jobs name, by the keys of the jobs; those without a record."""

    by_job: dict[str, tuple[str, ...]]
    unknown: frozenset[str]

    def newest_s(self, path: str) -> float:
        return max((_begun_s(key) for key, used in self.by_job.items() if path in used), default=0)


def list_archives(site: Site) -> list[StoredArchive]:
    """This user's, those of the longest unused first. Raises Unavailable."""
    living = _living(site)
    uses = _uses(site, _job_keys(site))
    return _archives(site, living, uses)


def remove_unused(
    site: Site, unused_s: float, *, is_trial: bool = False, now_s: float | None = None
) -> list[StoredArchive]:
    """Remove what no living job uses and no job of the last ``unused_s`` seconds has used, and
    return it. ``is_trial``: removes nothing. Raises Unavailable, also when it cannot be known what
    a living job uses: nothing is removed then."""
    before_s = (time.time() if now_s is None else now_s) - unused_s
    keys = _job_keys(site)
    living = _living(site)
    uses = _uses(site, keys)
    if unclear := sorted(living & uses.unknown):
        raise Unavailable(
            f"it is not known which archives {', '.join(unclear)} uses: nothing was removed",
            hint="Its record is damaged, or an older yarnam has submitted it. Wait for its end.",
        )
    found = [
        each
        for each in _archives(site, living, uses)
        if not each.used_by and each.last_use_s < before_s
    ]
    if is_trial or not found:
        return found
    with hdfs_errors("removing archives"):
        for each in found:
            site.files.rename(each.path, each.path + TRASH_SUFFIX)
    kept = _wanted_meanwhile(site, {each.path for each in found}, set(keys))
    with hdfs_errors("removing archives"):
        for each in found:
            if each.path in kept:
                # A job that has missed it since then has stored it again.
                with suppress(HdfsError):
                    site.files.rename(each.path + TRASH_SUFFIX, each.path)
            site.files.delete(each.path + TRASH_SUFFIX)
    return [each for each in found if each.path not in kept]


def _wanted_meanwhile(site: Site, renamed: set[str], known: set[str]) -> set[str]:
    """The renamed archives that have to be given back; all of them if their use is unknown."""
    try:
        new = [key for key in _job_keys(site) if key not in known]
        uses = _uses(site, new)
    except Unavailable:
        return renamed
    named = {path for used in uses.by_job.values() for path in used}
    return renamed if uses.unknown else renamed & named


def _archives(site: Site, living: set[str], uses: _Uses) -> list[StoredArchive]:
    found = []
    for directory, is_environment in (
        (site.paths.runtimes, False),
        (site.paths.environments, True),
    ):
        for status in _listed(site, directory):
            name = PurePosixPath(status.path).name
            kind = _kind(name, is_environment=is_environment)
            if kind and not status.is_dir:
                path = f"{directory}/{name}"
                made_s = status.mtime_ms / 1000
                found.append(
                    StoredArchive(
                        name=name,
                        path=path,
                        kind=kind,
                        size_bytes=status.length,
                        made_s=made_s,
                        last_use_s=max(made_s, uses.newest_s(path)),
                        used_by=tuple(sorted(k for k in living if path in uses.by_job.get(k, ()))),
                    )
                )
    return sorted(found, key=lambda each: (each.last_use_s, each.name))


def _kind(name: str, *, is_environment: bool) -> str:
    if is_environment:
        return "layer" if name.startswith(LAYER_FILE_PREFIX) else "environment"
    return next((kind for start, kind in KINDS.items() if name.startswith(start)), "")


def _listed(site: Site, directory: str) -> list[FileStatus]:
    with hdfs_errors(f"listing {directory}"):
        return site.files.list(directory) if site.files.exists(directory) else []


def _job_keys(site: Site) -> list[str]:
    names = (PurePosixPath(status.path).name for status in _listed(site, site.paths.jobs))
    return [name for name in names if is_key(name)]


def _living(site: Site) -> set[str]:
    applications = site.rm.applications(user=site.user, states=LIVING)
    return {key for app in applications if (key := key_in(app.tags)) is not None}


def _uses(site: Site, keys: Iterable[str]) -> _Uses:
    def read(key: str) -> tuple[str, tuple[str, ...]]:
        try:
            path = f"{site.paths.job(key)}/{protocol.JOB_FILE}"
            return key, decode(site.files.read_bytes(path), JobRecord).stored
        except (NotFound, YarnamError):
            return key, ()
        except HdfsError as error:
            raise Unavailable(f"cannot read the record of job {key}: {error}") from error

    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="records") as pool:
        found = dict(pool.map(read, keys))
    return _Uses(found, frozenset(key for key, used in found.items() if not used))


def _begun_s(key: str) -> float:
    return calendar.timegm(time.strptime(key[:15], "%Y%m%d-%H%M%S"))
