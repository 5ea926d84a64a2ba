"""The claims of jobs on directories, as files on HDFS. See ``yarnam.wire.shared.path_claim``.

A claim is created by a rename that replaces nothing, so of two jobs one gets it. The claim of an
ended job is first renamed aside, then compared with what was judged: if another job has replaced
it meanwhile, it is put back.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import hdfs_utils
from hdfs_utils import FileSystem, HdfsError
from hdfs_utils import uri as uris
from hdfs_utils.concurrency.retry import retry
from hdfs_utils.errors import AlreadyExists, MalformedData, NotFound, PermissionDenied
from hdfs_utils.errors import Unavailable as HdfsUnavailable
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.hdfs.small_files import SmallFiles
from yarnam.core.model.job_spec import JobSpec
from yarnam.errors import PathTaken, Unavailable, WireMismatch, YarnamError
from yarnam.wire.shared.path_claim import (
    MAX_CLAIM_BYTES,
    ClaimedPath,
    PathClaim,
    claimed_paths,
    decode_claim,
    encode_claim,
)

AM_LIMITS = hdfs_utils.TimeLimits.all(8.0)
"""As of the AM's other calls."""

_ROUNDS = 5
"""Tries to create a claim that others create and remove at the same time."""

RELEASE_LIMIT_S = 30.0
"""For a NameNode that restarts at a job's end. A claim that stays costs a later submit a question
to YARN."""

log = logging.getLogger("yarnam.claims")


@dataclass(frozen=True, slots=True)
class StoredClaim:
    """A claim as it was read. Times by the NameNode's clock."""

    content: bytes
    claim: PathClaim | None
    """``None`` if this is not a claim, or this user may not read it."""
    owner: str
    """The owner of the file; empty if the back-end does not report it."""
    written_at_s: float
    is_readable: bool = True


class ClaimFile:
    """The claim on one directory. Its methods raise YarnamError."""

    def __init__(
        self,
        files: FileSystem,
        path: str,
        target: ClaimedPath,
        small_files: SmallFiles | None = None,
    ) -> None:
        self.files = files
        self.target = target
        self.directory = files.own_path(path)
        self.path = target.claim_path(self.directory)
        self._small_files = small_files or SmallFiles(files)

    def create(self, claim: PathClaim) -> bool:
        """Whether the claim was created; False if there is one already."""
        with hdfs_errors(f"{self.target.spec_key}: cannot write to {self.target.uri}"):
            try:
                self._small_files.put(self.path, encode_claim(claim), overwrite=False)
            except AlreadyExists:
                return False
        return True

    def refresh(self, claim: PathClaim) -> None:
        """Write the job's own claim again, so that it is not outdated."""
        with hdfs_errors(f"writing {self.path}"):
            self._small_files.put(self.path, encode_claim(claim))

    def read(self) -> StoredClaim | None:
        """Also raises WireMismatch: a newer yarnam has written it."""
        with hdfs_errors(f"reading {self.path}"):
            try:
                status = self.files.stat(self.path)
                owner, written_at_s = status.owner, status.mtime_ms / 1000
                content = self.files.read_bytes(self.path, max_bytes=MAX_CLAIM_BYTES)
            except NotFound:
                return None
            except PermissionDenied:
                return StoredClaim(b"", None, owner, written_at_s, is_readable=False)
            except MalformedData:
                return StoredClaim(b"", None, owner, written_at_s)
        try:
            claim = decode_claim(content)
        except MalformedData:
            return StoredClaim(content, None, owner, written_at_s)
        except WireMismatch as error:
            raise WireMismatch(f"{self.path}: {error.message}", hint=error.hint) from None
        return StoredClaim(content, claim, owner, written_at_s)

    def remove(self, judged: StoredClaim) -> None:
        """Remove the claim that was read before; another one stays."""
        name = uris.cut_name(uris.name(self.path), f".{secrets.token_hex(6)}")
        aside = uris.join(uris.parent(self.path), name)
        with hdfs_errors(f"removing {self.path}"):
            try:
                self.files.rename(self.path, aside)
            except NotFound:
                return  # Its job, or another one that takes it over, was faster.
            with suppress(MalformedData):
                if self.files.read_bytes(aside, max_bytes=MAX_CLAIM_BYTES) != judged.content:
                    # If there is a newer claim by now, the holder of this one finds it there.
                    with suppress(AlreadyExists):
                        self.files.rename(aside, self.path)
                        return
            self.files.delete(aside)

    def release(self, key: str) -> None:
        """Remove the claim if it is that of the job with this key."""
        found = self.read()
        if found is not None and found.claim is not None and found.claim.key == key:
            with hdfs_errors(f"removing {self.path}"):
                self.files.delete(self.path)


def _passes(error: Exception) -> bool:
    return isinstance(error, (Unavailable, HdfsUnavailable))


class HeldClaims:
    """The claims of a running job, as its AM sees them."""

    def __init__(
        self,
        files: FileSystem,
        job: JobSpec,
        key: str,
        cluster: str,
        connect: Callable[[str], FileSystem] = lambda uri: hdfs_utils.connect(
            uri, limits=AM_LIMITS
        ),
    ) -> None:
        self._files = files
        self._connect = connect
        self._targets = claimed_paths(job)
        self._claim = PathClaim(key, job.user, job.name, cluster)

    def confirm(self) -> None:
        """Check that the job's claims stand, and create those that are missing. Raises PathTaken:
        another job has one. A claim that cannot be read does not stop the job."""
        for target in self._targets:
            try:
                held = self._held_by(self._file(target))
            except PathTaken:
                raise
            except (YarnamError, HdfsError) as error:
                log.warning("the claim on %s is not confirmed: %s", target.uri, error)
                continue
            if held is not None and held.key != self._claim.key:
                raise PathTaken(
                    f"{target.spec_key}: {target.uri} belongs to another job now: {held.name}"
                    f" of {held.user} ({held.key})",
                    hint="Give each job a directory of its own.",
                    spec_key=target.spec_key,
                )

    def release(self) -> None:
        """Remove the job's claims, within ``RELEASE_LIMIT_S`` where HDFS is away. Raises nothing:
        YARN tells later jobs that this one has ended."""
        deadline = time.monotonic() + RELEASE_LIMIT_S
        for target in self._targets:
            left_s = deadline - time.monotonic()
            try:
                retry(partial(self._release, target), left_s, is_retriable=_passes)
            except (YarnamError, HdfsError) as error:
                log.warning("the claim on %s is not removed: %s", target.uri, error)

    def _release(self, target: ClaimedPath) -> None:
        self._file(target).release(self._claim.key)

    def _held_by(self, file: ClaimFile) -> PathClaim | None:
        for _ in range(_ROUNDS):
            if (found := file.read()) is not None:
                return found.claim
            log.warning("the claim on %s is gone; creating it again", file.target.uri)
            if file.create(self._claim):
                return self._claim
        return None

    def _file(self, target: ClaimedPath) -> ClaimFile:
        with hdfs_errors(f"reaching {target.uri}"):
            named = urlsplit(target.uri)
            if not named.netloc or self._files.uri.endswith(f"//{named.netloc}"):
                return ClaimFile(self._files, named.path if named.scheme else target.uri, target)
            return ClaimFile(self._connect(target.uri), target.uri, target)
