"""Read the results and exceptions of a function's job from HDFS."""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hdfs_utils.errors import HdfsError, NotFound
from hdfs_utils.protocols.untrusted import at_path, decode_record
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.functions.call_package import MAX_RESULT_BYTES
from yarnam.client.site import Site
from yarnam.errors import InternalError, NoPermission
from yarnam.wire.protocol import FETCHED_DIRECTORY, RESULTS_DIRECTORY

OTHERS_WRITE = 0o022
"""The bits of a directory's mode that let others write. Our directories are made with 700."""

MAX_HEADER_BYTES = 1 << 20
"""Text and traceback are cut to 110,000 characters; JSON needs at most 6 bytes for one."""


class RemoteTraceback(Exception):
    """The cause of an exception that a function raised in its job: the traceback there, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


class FunctionFailed(Exception):
    """A function has raised what cannot be pickled. ``type_name``: the name of its class."""

    def __init__(self, message: str, type_name: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name


@dataclass(frozen=True, slots=True)
class Returned:
    """The result of one rank's process."""

    value: Any = None
    error: BaseException | None = None
    """The exception, with a RemoteTraceback as its cause."""


def results_directory(job_directory: str) -> str:
    return f"{job_directory}/{RESULTS_DIRECTORY}"


def ranks_of(site: Site, job_directory: str) -> list[int]:
    """The ranks that have left a result, the one that did so first at first. Raises Unavailable;
    NoPermission where others could have left it."""
    folder = results_directory(job_directory)
    with hdfs_errors(f"reading {folder}"):
        try:
            found = list(site.files.list(folder))
        except NotFound:
            return []
        job = site.files.stat(job_directory)
    # Only the user makes these, with mode 700, so anything else is refused without Kerberos too.
    others = {one.owner for one in (job, *found)} - {site.user}
    if job.permission & OTHERS_WRITE or others:
        raise NoPermission(
            f"others than {site.user} may write to {job_directory}, and what a function returns"
            " can run code here: it is not read",
            hint=f"hdfs dfs -chmod 700 {job_directory}, and run the function again.",
        )
    site.path_owners().must_be_own(folder)
    named = [
        (one.mtime_ms, int(name))
        for one in found
        if (name := one.path.rpartition("/")[2]).isdecimal()
    ]
    return [rank for _, rank in sorted(named)]


def note_fetched(site: Site, job_directory: str) -> None:
    """Best effort: results that are not known to be fetched stay."""
    with suppress(HdfsError):
        site.files.mkdirs(f"{job_directory}/{FETCHED_DIRECTORY}", 0o700)


def read_result(site: Site, job_directory: str, rank: int) -> Returned | None:
    """``None`` if the process has left none. Raises Unavailable, BadData for a damaged file, and
    any exception of unpickling: the modules of a value's types have to be here too.

    A pickle runs code: these lie in the user's own directory, which no other user may write to, as
    ``ranks_of`` has checked. With simple authentication any client of HDFS can be that user.
    """
    path = f"{results_directory(job_directory)}/{rank}"
    with hdfs_errors(f"reading {path}"):
        try:
            content = site.files.read_bytes(path, max_bytes=MAX_RESULT_BYTES + MAX_HEADER_BYTES)
        except NotFound:
            return None
    header, _, payload = content.partition(b"\n")
    with hdfs_errors(f"reading {path}"), at_path(path, "read result"):
        failure = read_header(header)
    if failure is None:
        return Returned(value=pickle.loads(payload))  # noqa: S301 - see above
    return Returned(error=raised(payload, *failure))


def read_header(header: bytes) -> tuple[str, str, str] | None:
    """Class, text and traceback of the function's exception; ``None`` if it has returned. Raises
    MalformedData."""
    facts = decode_record(header, max_bytes=MAX_HEADER_BYTES)
    if facts.flag("ok"):
        return None
    return (
        facts.text("type", max_length=1000),
        facts.text("text", max_length=10_000),
        facts.text("traceback", max_length=100_000),
    )


def raised(payload: bytes, kind: str, text: str, trace: str) -> BaseException:
    """The exception again, or a FunctionFailed with its text."""
    error: BaseException = FunctionFailed(f"{kind}: {text}", kind)
    if payload:
        try:
            found = pickle.loads(payload)  # noqa: S301
        except Exception:  # noqa: BLE001 - a class that is not here: its text is
            found = None
        if isinstance(found, BaseException):
            error = found
    error.__cause__ = RemoteTraceback(trace)
    return error


def missing_call(application: str, position: int) -> InternalError:
    return InternalError(
        f"{application} has succeeded, and has left no result of its call {position}",
        hint=f"See what it printed: yarnam logs {application}",
    )


def missing(application: str, rank: int) -> InternalError:
    return InternalError(
        f"{application} has succeeded, and rank {rank} has left no result",
        hint=f"See what it printed: yarnam logs {application} --rank {rank}",
    )
