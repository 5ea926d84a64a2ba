"""The members of an array of jobs: one spec for each index. Pure."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from yarnam.core.model.job_spec import JobSpec
from yarnam.errors import BadSpec, UsageError

T = TypeVar("T")

INDEX_VARIABLE = "YARNAM_ARRAY_INDEX"
SIZE_VARIABLE = "YARNAM_ARRAY_SIZE"
PLACEHOLDER = f"${{{INDEX_VARIABLE}}}"
"""In any text of the spec it stands for the member's index."""

TAG_PREFIX = "yarnam-array-"
"""The application tag of all members: this and the array's id."""

MAX_MEMBERS = 1000
"""The most members: Slurm's MaxArraySize, less one for index zero. Each member is a YARN
application, of which the ResourceManager remembers 1000 by default
(``yarn.resourcemanager.max-completed-applications``)."""

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ArrayIndices:
    """``most_at_once``: how many members may live at a time; 0 for all."""

    indices: tuple[int, ...]
    most_at_once: int = 0


def parse_indices(text: str) -> ArrayIndices:
    """Slurm's notation: ``0-9``, ``1,5,7``, ``0-20:5`` (a step), and ``%4`` behind it for at most
    four at a time. Raises UsageError."""
    ranges, sign, cap = text.partition("%")
    if sign and not (cap.isascii() and cap.isdigit() and int(cap[:9]) > 0):
        raise _no_indices(text)
    found: dict[int, None] = {}
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise _no_indices(text)
        first, last, step = (int(one) if one else None for one in match.groups())
        if first is None or step == 0:
            raise _no_indices(text)
        span = range(first, (first if last is None else last) + 1, step or 1)
        if not span:
            raise _no_indices(text)
        if len(span) + len(found) > 2 * MAX_MEMBERS:
            raise _too_many()
        found.update(dict.fromkeys(span))
    return checked(ArrayIndices(tuple(found), int(cap[:9]) if sign else 0))


def checked(found: ArrayIndices) -> ArrayIndices:
    """Raises UsageError: none, twice the same, negative, or too many."""
    if len(found.indices) > MAX_MEMBERS:
        raise _too_many()
    is_plain = all(index >= 0 for index in found.indices)
    if not found.indices or len(set(found.indices)) < len(found.indices) or not is_plain:
        raise _no_indices(str(list(found.indices)))
    if found.most_at_once < 0:
        raise UsageError(f"{found.most_at_once} members at a time are none")
    return found


def member_of(job: JobSpec, array_id: str, found: ArrayIndices, index: int) -> JobSpec:
    """The job of one index: its own name, tag and variables, and the index for each placeholder.
    Raises BadSpec where members would write into the same directory."""
    for what, path in (
        ("data.outputs", job.output),
        ("checkpoint.directory", job.checkpoint.directory),
    ):
        if path and PLACEHOLDER not in path and len(found.indices) > 1:
            raise BadSpec(
                f"all members of the array would write to the same {what}: {path}",
                hint=f"Put the index into it, such as {path.rstrip('/')}/{PLACEHOLDER}",
            )
    variables = (
        (INDEX_VARIABLE, str(index)),
        ("YARNAM_ARRAY_ID", array_id),
        (SIZE_VARIABLE, str(len(found.indices))),
    )
    name = job.name if PLACEHOLDER in job.name else f"{job.name}-{index}"
    named = replace(
        job,
        name=name,
        env=(*job.env, *variables),
        tags=(*job.tags, tag_of_array(array_id)),
        idempotency_key=f"{job.idempotency_key}/{index}" if job.idempotency_key else "",
    )
    return _filled(named, str(index))


def tag_of_array(array_id: str) -> str:
    """Raises UsageError: no id of an array."""
    if not _ID.fullmatch(array_id):
        raise UsageError(
            f"{array_id} is not the id of an array", hint="An id has 12 digits of 0-9 and a-f."
        )
    return TAG_PREFIX + array_id


def _filled(value: T, index: str) -> T:
    """Replace each placeholder in any text of it by the index."""
    found: Any = value
    if isinstance(value, str):
        found = value.replace(PLACEHOLDER, index)
    elif isinstance(value, tuple):
        found = tuple(_filled(one, index) for one in value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
        new = {name: (old, _filled(old, index)) for name, old in pairs}
        changes = {name: filled for name, (old, filled) in new.items() if filled != old}
        found = replace(value, **changes) if changes else value
    return found  # type: ignore[no-any-return]


def _no_indices(text: str) -> UsageError:
    return UsageError(
        f"{text} names no indices",
        hint="Write 0-9, 1,5,7 or 0-20:5, and %4 behind it for at most 4 jobs at a time.",
    )


def _too_many() -> UsageError:
    return UsageError(f"an array has at most {MAX_MEMBERS} members")
