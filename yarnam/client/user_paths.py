"""Where a user's yarnam keeps things on HDFS.

::

    /user/<user>/.yarnam/
        jobs/<key>/            mode 700: job.json, credentials.pem, journal/, verdict.json, ...
        applications/<id>      the key of the job that runs as this YARN application
        idempotency/<digest>   the job that an idempotency key stands for
        arrays/<id>            an array of which no more members are to start
        runtime/               runtime archives, by content
        environments/          packed environments, by content
        pre-runs/<key>         programs that have passed their pre-run
        history/               what stays of jobs that have ended; others may read it
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass

from yarnam.wire.protocol import JOB_KEY_TAG_PREFIX, PRE_RUNS_DIRECTORY

_KEY = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class UserPaths:
    """Full URIs; ``home`` is the user's home directory with its file system."""

    home: str

    @property
    def root(self) -> str:
        return f"{self.home}/.yarnam"

    @property
    def jobs(self) -> str:
        return f"{self.root}/jobs"

    @property
    def history(self) -> str:
        return f"{self.root}/history"

    @property
    def pre_runs(self) -> str:
        return f"{self.root}/{PRE_RUNS_DIRECTORY}"

    @property
    def runtimes(self) -> str:
        return f"{self.root}/runtime"

    @property
    def environments(self) -> str:
        return f"{self.root}/environments"

    def notebook(self, name: str) -> str:
        """Where the files of a notebook of this name are kept."""
        return f"{self.root}/notebooks/{name}"

    def job(self, key: str) -> str:
        return f"{self.jobs}/{key}"

    def application(self, application: str) -> str:
        return f"{self.root}/applications/{application}"

    @property
    def idempotency_records(self) -> str:
        return f"{self.root}/idempotency"

    @property
    def array_stops(self) -> str:
        return f"{self.root}/arrays"

    def array_stop(self, array_id: str) -> str:
        return f"{self.array_stops}/{array_id}"

    def idempotency_record(self, digest: str) -> str:
        return f"{self.idempotency_records}/{digest}"

    def skein_staging(self, application: str) -> str:
        """Skein's own directory; it stays if the AM is killed before it can remove it."""
        return f"{self.home}/.skein/{application}"


def new_key(now_s: float | None = None) -> str:
    """Unique per user: the second (UTC) and 24 random bits. Sorts by time."""
    at = time.gmtime(time.time() if now_s is None else now_s)
    return f"{time.strftime('%Y%m%d-%H%M%S', at)}-{secrets.token_hex(3)}"


def is_key(text: str) -> bool:
    """Whether this is the key of a job's directory, as ``new_key`` makes them."""
    return _KEY.fullmatch(text) is not None


def tag_of(key: str) -> str:
    """The application tag that names the job's directory."""
    return JOB_KEY_TAG_PREFIX + key


def key_in(tags: Iterable[str]) -> str | None:
    """The job's key among an application's tags; ``None`` if it is not one of yarnam's."""
    for tag in tags:
        if tag.startswith(JOB_KEY_TAG_PREFIX) and is_key(tag[len(JOB_KEY_TAG_PREFIX) :]):
            return tag[len(JOB_KEY_TAG_PREFIX) :]
    return None
