"""The versions of an allocation file: a line for each ``apply`` beside the file, and the backups.

``FILE.versions.jsonl`` says when, by whom, the digest of what was put in place and the backup of
what was there. Whoever can write it can write the allocation file too.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pwd
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import Record, decode_json, read_at_most
from yarnam.errors import BadConfig, UsageError

SUFFIX = ".versions.jsonl"
MAX_BYTES = 4 << 20
MAX_LINE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class AllocationVersion:
    """One file that ``apply`` or ``undo`` has put in place."""

    at_s: float
    by: str
    """The user, and in brackets who it was before sudo."""
    digest: str
    """SHA-256 of the file, in hexadecimal digits."""
    backup: str
    """The name of the file with the former content; empty where the file is new."""
    undid: str = ""
    """The digest of the version that this one took back; empty for ``apply``."""


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def noted_version(
    target: Path, content: bytes, backup: Path | None, undid: str = ""
) -> Iterator[None]:
    """Notes the version that the block puts in place, and takes the note back if it does not.
    Raises OSError."""
    own = pwd.getpwuid(os.geteuid()).pw_name
    before = os.environ.get("SUDO_USER", "")
    by = f"{own} ({before})" if before and before != own else own
    name = backup.name if backup is not None else ""
    made = AllocationVersion(time.time(), by, digest_of(content), name, undid)
    with _file(target).open("ab", buffering=0) as file:
        before_bytes = file.tell()
        try:
            line = json.dumps(asdict(made)).encode() + b"\n"
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            yield
        except BaseException:
            file.truncate(before_bytes)
            raise


def versions(target: Path) -> list[AllocationVersion]:
    """Oldest first; none if ``apply`` has never replaced the file. Raises UsageError, BadConfig."""
    path = _file(target)
    try:
        with path.open("rb") as file:
            lines = read_at_most(file, MAX_BYTES).splitlines()
        return [_decoded(line) for line in lines]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except MalformedData as error:
        raise BadConfig(
            f"{path} is not a list of versions: {error.message}",
            hint="The backups beside it are whole: copy the one that you want over the file.",
        ) from error


def to_undo(target: Path) -> AllocationVersion:
    """The version that is in place now. Raises UsageError: it is not one of ours, or has no
    backup."""
    found = versions(target)
    try:
        digest = digest_of(target.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {target}: {error.strerror}") from error
    if not found:
        raise UsageError(f"`yarnam queues apply` has never replaced {target}: nothing to undo")
    kept: list[AllocationVersion] = []
    for one in found:
        if not one.undid:
            kept.append(one)
        elif kept and kept[-1].digest == one.undid:
            kept.pop()
    latest = found[-1]
    if latest.digest == digest:
        if not kept or not kept[-1].backup:
            raise UsageError(f"{target} is as it was before the first `yarnam queues apply`")
        if not (target.parent / kept[-1].backup).is_file():
            raise UsageError(f"the backup {kept[-1].backup} is gone: nothing was changed")
        return kept[-1]
    raise UsageError(
        f"{target} was changed by other means since {latest.by} last replaced it, at "
        f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(latest.at_s))} UTC: nothing was changed",
        hint=f"To see who has replaced it: yarnam queues history --to {target}",
    )


def contents(target: Path, found: list[AllocationVersion]) -> list[Path | None]:
    """Where what each version put in place lies now; ``None`` where it was changed by hand or its
    file is gone."""
    later = [target.parent / one.backup if one.backup else None for one in found[1:]]
    places = [*later, target][: len(found)]
    return [
        place if place is not None and _has(place, one.digest) else None
        for one, place in zip(found, places, strict=True)
    ]


def _has(path: Path, digest: str) -> bool:
    try:
        return digest_of(path.read_bytes()) == digest
    except OSError:
        return False


def _file(target: Path) -> Path:
    return target.with_name(f"{target.name}{SUFFIX}")


def _decoded(line: bytes) -> AllocationVersion:
    row = Record(decode_json(line, max_bytes=MAX_LINE_BYTES), "a line")
    backup = row.text("backup", max_length=255)
    if "/" in backup:
        raise MalformedData("a backup is not beside the file")
    return AllocationVersion(
        row.number("at_s", least=0.0, most=1e11),
        row.text("by", max_length=200),
        row.text("digest", max_length=64),
        backup,
        row.text("undid", max_length=64),
    )
