"""One job for each idempotency key, however often and from wherever it is submitted.

A submit makes the key's record before it asks YARN: a file on HDFS that only one can make, with the
key of its job's directory. When YARN has accepted the application, its id goes into the file. So a
later submit finds the application there; or, if that submit never got YARN's answer, in the
ResourceManager's list, by the application's tag.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from hdfs_utils import HdfsError
from hdfs_utils.errors import AlreadyExists, NotFound
from yarnam.adapters import submitter
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client.site import Site
from yarnam.client.user_paths import key_in
from yarnam.errors import Unavailable
from yarnam.wire.codec import MAX_BYTES, decode, encode
from yarnam.wire.records import IdempotencyRecord

IN_PROGRESS_LIMIT_S = 180.0
"""How long a submit may take from its record until YARN has accepted the application: by Skein's
driver 120 s. A record that is older without an application belongs to a submit that was killed."""

CONFIRM_LIMIT_S = 15.0
"""The longest time from YARN's acceptance until the submit has written it to its record."""

GONE_LIMIT_S = 10.0
"""How long YARN may take to list an application whose submitter was killed while it asked: as long
as any call of the ResourceManager."""

POLL_S = 0.5


class KeyTaken(Exception):
    """Another submit has this idempotency key; this one must not continue."""


class Decision(Enum):
    """The decision that follows from a record and from YARN's applications."""

    SUBMIT = "submit"
    ADOPT = "adopt"
    WAIT = "wait"
    TAKE_OVER = "take over"


@dataclass(frozen=True, slots=True)
class EarlierSubmit:
    """The application that an earlier submit has started, and the key of its directory."""

    application: str
    key: str


def decide(
    record: IdempotencyRecord | None,
    found: Sequence[YarnApplication],
    waited_s: float,
    *,
    is_gone: bool = False,
) -> tuple[Decision, EarlierSubmit | None]:
    """``found``: YARN's applications with the tag of the idempotency key. ``waited_s``: how long
    this record has been seen without an application. ``is_gone``: since then, the process that has
    made the record has been dead.

    An application that was killed before its submit has confirmed it was killed by that submit,
    which had failed: it does not count.
    """
    if record is not None and record.application:
        return Decision.ADOPT, EarlierSubmit(record.application, record.key)
    counted = sorted(
        (app for app in found if app.state != "KILLED" and key_in(app.tags)),
        key=lambda app: (app.started_at_s, app.application),
    )
    if record is None:
        living = [app for app in counted if not app.is_over]
        return (Decision.ADOPT, _earlier_submit(living[0])) if living else (Decision.SUBMIT, None)
    own = [app for app in counted if key_in(app.tags) == record.key]
    if own and (waited_s >= CONFIRM_LIMIT_S or own[0].is_over):
        return Decision.ADOPT, _earlier_submit(own[0])
    if waited_s >= (GONE_LIMIT_S if is_gone else IN_PROGRESS_LIMIT_S):
        return Decision.TAKE_OVER, None
    return Decision.WAIT, None


def _earlier_submit(app: YarnApplication) -> EarlierSubmit:
    return EarlierSubmit(app.application, key_in(app.tags) or "")


def digest_of(user: str, idempotency_key: str) -> str:
    """The short form of a key in names and tags: 128 bits."""
    return hashlib.sha256(f"{user}\0{idempotency_key}".encode()).hexdigest()[:32]


class IdempotencyKey:
    """One idempotency key of this user, and its record."""

    def __init__(
        self, site: Site, idempotency_key: str, report: Callable[[str], None] = lambda _: None
    ) -> None:
        self._site = site
        self._files = site.files
        self._report = report
        digest = digest_of(site.user, idempotency_key)
        self.path = site.paths.idempotency_record(digest)
        self.tag = f"yarnam-key-{digest}"

    def earlier_submit(self) -> EarlierSubmit | None:
        """The job that this key has started, if any. Waits for another submit that is under way,
        at most ``IN_PROGRESS_LIMIT_S``. Raises Unavailable."""
        began_s, seen, is_new, is_gone = time.monotonic(), None, False, False
        while True:
            record = self._read()
            if record != seen:
                began_s, seen = time.monotonic(), record
                is_new, is_gone = True, False
            if record is not None and not is_gone and submitter.is_gone(record.submitter):
                # Its submitter is gone, so that no application can appear any more.
                began_s, is_gone = time.monotonic(), True
            waited_s = time.monotonic() - began_s
            decision, found = decide(record, self._listed(record), waited_s, is_gone=is_gone)
            if decision is Decision.ADOPT and found is not None:
                self._write(IdempotencyRecord(found.key, found.application))
                return found
            if decision is Decision.SUBMIT:
                return None
            if decision is Decision.TAKE_OVER:
                self._remove()
                continue
            if is_new:
                is_new = False
                self._report(
                    "Another submit with this idempotency key is under way: waiting for it"
                    f" (at most {GONE_LIMIT_S if is_gone else IN_PROGRESS_LIMIT_S:g} s)"
                )
            time.sleep(POLL_S)

    def take(self, key: str, *, ends_with_client: bool = False) -> None:
        """Make the record, for the job with this directory. ``ends_with_client``: nothing of the
        submit outlives this process. Raises KeyTaken, Unavailable."""
        own = submitter.this_process() if ends_with_client else ""
        content = encode(IdempotencyRecord(key, submitter=own))
        with hdfs_errors(f"writing {self.path}"):
            try:
                self._files.write_atomic(self.path, content, overwrite=False)
            except AlreadyExists:
                raise KeyTaken from None

    def confirm(self, key: str, application: str) -> None:
        """YARN has accepted this application. Raises KeyTaken: another submit has the key now,
        because this one had been silent for too long."""
        record = self._read()
        if record is None or record.key != key:
            raise KeyTaken
        # The tag leads to the application as well, as long as YARN knows it.
        with suppress(Unavailable):
            self._write(IdempotencyRecord(key, application))

    def drop(self, key: str) -> None:
        """Delete the record of a job without remains. Raises nothing: an error is propagating."""
        with suppress(HdfsError, Unavailable):
            record = self._read()
            if record is not None and record.key == key:
                self._files.delete(self.path)

    def _listed(self, record: IdempotencyRecord | None) -> Sequence[YarnApplication]:
        if record is not None and record.application:
            return ()
        return self._site.rm.applications(user=self._site.user, tags=[self.tag])

    def _read(self) -> IdempotencyRecord | None:
        with hdfs_errors(f"reading {self.path}"):
            try:
                content = self._files.read_bytes(self.path, max_bytes=MAX_BYTES)
            except NotFound:
                return None
        return decode(content, IdempotencyRecord)

    def _write(self, record: IdempotencyRecord) -> None:
        with hdfs_errors(f"writing {self.path}"):
            self._files.write_atomic(self.path, encode(record))

    def _remove(self) -> None:
        """Only one of several succeeds in renaming a file; the others read it again."""
        aside = f"{self.path}.{secrets.token_hex(6)}"
        with hdfs_errors(f"removing {self.path}"), suppress(NotFound):
            self._files.rename(self.path, aside)
            self._files.delete(aside)
