"""The one map from what the operating system says of a full disk to ``DiskFull``.

Writers need no handler of their own: whoever is outermost (the command, the client's calls, the
ApplicationMaster, the agent) looks for a full disk in the chain of whatever has reached it.
"""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

from yarnam.errors import DiskFull, YarnamError

_FULL = {
    errno.ENOSPC: "No space left on device",
    errno.EDQUOT: "Disk quota exceeded",
}
"""The system has no other word for a full table of inodes than ENOSPC."""
_SAID = (
    *(f"[Errno {number}]" for number in _FULL),
    *(f"(os error {number})" for number in _FULL),
    *_FULL.values(),
)
"""As Python, Rust and C programs write it."""
_NO_TEMPORARY = "No usable temporary directory"
"""How ``tempfile`` reports that it could write to none of the usual places (ENOENT)."""

HINT = "Free space or inodes there (df, df -i, quota), or use a directory on another disk."


def disk_full(error: BaseException, *places: object) -> DiskFull | None:
    """The error, or one that caused it, as ``DiskFull``; ``None`` if no full disk did. ``places``
    are paths that the caller writes to: the system does not say which file a failed write is for.
    """
    for cause in _causes(error):
        if isinstance(cause, DiskFull):
            return cause
        if isinstance(cause, OSError) and (said := _words(cause)):
            # Of two paths the second is the one that was written.
            path = cause.filename2 or cause.filename
            return _disk_full(said, [path] if path else places)
    return None


def full_disk_in(said: str, *places: object) -> DiskFull | None:
    """The same from the output of another program that has failed."""
    line = next((one for one in said.splitlines() if any(words in one for words in _SAID)), "")
    return _disk_full(line.strip(), places) if line else None


def in_words(error: BaseException, *places: object) -> str:
    """The text of an error, with the place where a full disk has caused it."""
    full = disk_full(error, *places)
    return full.message if full is not None else str(error)


@contextmanager
def full_disk_named(*places: object) -> Generator[None, None, None]:
    """Raise what a full disk has caused in this block as ``DiskFull``."""
    try:
        yield
    except Exception as error:
        found = disk_full(error, *places)
        if found is None or found is error:
            raise
        raise found from error


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        # An error of ours that arose while another was handled is about something else.
        is_own = isinstance(one, YarnamError) or one.__suppress_context__
        one = one.__cause__ or (None if is_own else one.__context__)


def _words(error: OSError) -> str:
    """The system's words, if they are about a full disk; else empty."""
    if error.errno in _FULL:
        return f"[Errno {error.errno}] {_FULL[error.errno]}"
    text = str(error)
    # shutil.Error is a list of what has failed, as text.
    is_list = error.errno is None and any(words in text for words in _SAID)
    return text if is_list or _NO_TEMPORARY in text else ""


def _disk_full(said: str, places: Iterable[object]) -> DiskFull:
    where = " or ".join(str(place) for place in places)
    return DiskFull(f"{said[:1000]}: {where}" if where else said[:1000], hint=HINT)
