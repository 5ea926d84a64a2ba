"""Files that nobody needs any more: the same user's later submits remove them.

Killed clients leave files in the middle of a submit, which go after a day; a client that fails or
is interrupted cleans up itself. Jobs that have ended leave their directory: see ``job_removal``.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from hdfs_utils import HdfsError
from yarnam._light_imports import on_first_use
from yarnam.adapters.yarn.rest_launcher import CLUSTER_FILE
from yarnam.client.environments.local_cache import clear_cache
from yarnam.client.site import Site
from yarnam.client.submit.leftovers.job_removal import begun_s, remove_some
from yarnam.client.user_paths import key_in, tag_of
from yarnam.errors import YarnamError
from yarnam.wire import protocol
from yarnam.wire.codec import decode
from yarnam.wire.records import JobRecord

with on_first_use():
    from skein_specs import submission as specs

SCRATCH_PREFIX = "yarnam-submit-"

ABANDONED_S = 86400.0
"""A submit takes seconds, or minutes where it uploads much. The clocks of this machine and of HDFS
need not agree on more than the day."""

KEY_KEPT_S = 90 * 86400.0
"""How long an idempotency key is remembered: longer than a pipeline retries."""

SAMPLE = 20
"""Directories that one submit opens at most, at random: the records of jobs that are over
stay, so there may be thousands."""

_HAS_RUN = frozenset(
    {protocol.AM_FILE, protocol.JOURNAL_DIRECTORY, protocol.VERDICT_FILE, protocol.STATUS_FILE}
)


def clear_abandoned(site: Site, *, older_than_s: float = ABANDONED_S) -> None:
    """Raises nothing: a submit continues without it."""
    before_s = time.time() - older_than_s
    _clear_scratch(before_s)
    clear_cache(site.cache)
    for find in (_never_submitted, _staged_for_ended):
        with suppress(HdfsError, YarnamError):
            for path in find(site, before_s):
                site.files.delete(path, recursive=True)
    remove_some(site)
    for folder in (site.paths.idempotency_records, site.paths.array_stops):
        with suppress(HdfsError):
            for record in site.files.list(folder):
                if record.mtime_ms < (time.time() - KEY_KEPT_S) * 1000:
                    site.files.delete(record.path)


def _clear_scratch(before_s: float) -> None:
    """On this machine. Directories of others cannot be removed, and stay."""
    for path in Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*"):
        with suppress(OSError):
            if path.lstat().st_mtime < before_s:
                shutil.rmtree(path)


def _never_submitted(site: Site, before_s: float) -> Iterator[str]:
    """Jobs' directories that no application belongs to. One that has run keeps its record. The
    ResourceManager is asked about the others of the sample alone, in one question."""
    listed = [status.path for status in site.files.list(site.paths.jobs)]
    old = [path for path in listed if begun_s(PurePosixPath(path).name) < before_s]
    found = {}
    for path in random.sample(old, min(SAMPLE, len(old))):
        with suppress(HdfsError, YarnamError):  # one that cannot be read stops no other
            sizes = {PurePosixPath(one.path).name: one.length for one in site.files.list(path)}
            if sizes.keys().isdisjoint(_HAS_RUN) and _is_of(site, path, sizes):
                found[PurePosixPath(path).name] = path
    if found:
        known = site.rm.applications(user=site.user, tags=[tag_of(key) for key in found])
        for key in found.keys() - {key_in(app.tags) for app in known}:
            yield found[key]


def _is_of(site: Site, path: str, sizes: Mapping[str, int]) -> bool:
    """Other clusters may share the file system, and this one does not know their jobs."""
    if not sizes.get(protocol.JOB_FILE):
        return True  # it is complete before YARN gets the job; if empty, the client was cut off
    record = decode(site.files.read_bytes(f"{path}/{protocol.JOB_FILE}"), JobRecord)
    return record.rm_url == site.rm.url


def _staged_for_ended(site: Site, before_s: float) -> Iterator[str]:
    """Skein's directories of applications that are over: their last AM was killed, or they were
    before they had one. And of those that YARN never had: the client was killed before it asked."""
    root = site.paths.skein_staging("").rstrip("/")
    old = [one.path for one in site.files.list(root) if one.mtime_ms < before_s * 1000]
    for path in random.sample(old, min(SAMPLE, len(old))):
        with suppress(HdfsError, YarnamError):
            app = site.rm.application(PurePosixPath(path).name)
            if app.is_over if app is not None else _was_never_sent(site, path):
                yield path


def _was_never_sent(site: Site, path: str) -> bool:
    """An application that this cluster's ResourceManager does not know may be another cluster's."""
    names = {PurePosixPath(status.path).name for status in site.files.list(path)}
    if specs.SPEC_FILE not in names:
        return True  # it is written last, and no cluster is asked without it
    return (
        CLUSTER_FILE in names
        and site.files.read_bytes(f"{path}/{CLUSTER_FILE}") == site.rm.url.encode()
    )
