"""Which part of a process's log came from stdout, which from stderr, and when.

Both go into one file, so that its readers see all of it in the order in which it was written. But
each has an open file description of its own, and the kernel keeps in it where its last write ended
(with O_APPEND too: write(2)). Whoever looks at the two positions from time to time knows what lies
between them. Nothing is copied, and a process that prints waits for nobody.

Where both have written between two looks, only the end of that part is known: of the last write of
each. What comes by another description (``/dev/stderr`` opened anew) is not told apart.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from yarnam.core.model.outcomes import Origin, Stream

HEAD_MARKS, TAIL_MARKS = 64, 512
"""Kept of one run, in some 40 KB: the first ones and the last ones, as of the text itself."""


class _Span(NamedTuple):
    """The text written up to the offset ``end``, from the end of the span before on."""

    end: int
    origin: Origin


@dataclass(slots=True)
class OutputStreams:
    """The streams of one run of a process, whose log begins at ``start``."""

    start: int = 0
    keeper: int = 0
    """Its process id; it holds the descriptions."""
    descriptors: tuple[int, int] | None = None
    """The keeper's, for stdout and stderr; ``None`` if they are not known, or closed."""
    _out: int = field(init=False)
    _err: int = field(init=False)
    _head: list[_Span] = field(default_factory=list)
    _tail: deque[_Span] = field(default_factory=lambda: deque(maxlen=TAIL_MARKS))

    def __post_init__(self) -> None:
        self._out = self._err = self.start

    def poll(self, log: Path) -> None:
        """See where they are while the process runs."""
        if self.descriptors is None:
            return
        with suppress(OSError, ValueError):
            if log.stat().st_size == max(self._out, self._err):
                return  # nothing was written since
            out, err = (_position(self.keeper, number) for number in self.descriptors)
            self.mark(out, err, log)

    def mark(self, out: int, err: int, log: Path) -> None:
        """Note where the last writes have ended. A position beyond the end of the file is another
        file's, whose number was free again."""
        with suppress(OSError):
            seen = log.stat()
            if max(out, err) <= seen.st_size:
                self._add(max(out, self._out), max(err, self._err), seen.st_mtime)

    def origin(self, offset: int) -> Origin | None:
        """The origin of the byte at this offset; ``None`` if it is not known."""
        spans = [*self._head, *self._tail]
        at = bisect_right(spans, offset, key=lambda span: span.end)
        # The span after a gap begins who knows where.
        is_after_gap = at == len(self._head) and len(self._tail) == TAIL_MARKS
        if offset < self.start or at == len(spans) or is_after_gap:
            return None
        return spans[at].origin

    def _add(self, out: int, err: int, at_s: float) -> None:
        begin, end = max(self._out, self._err), max(out, err)
        if end <= begin:
            return
        last = Stream.STDOUT if out > err else Stream.STDERR
        has_one = out == self._out or err == self._err
        self._out, self._err = out, err
        if not has_one:
            other = Stream.STDERR if out > err else Stream.STDOUT
            middle = min(out, err)
            self._put(_Span(middle - 1, Origin(None, at_s)))
            self._put(_Span(middle, Origin(other, at_s)))
        self._put(_Span(end, Origin(last, at_s)))

    def _put(self, span: _Span) -> None:
        (self._head if len(self._head) < HEAD_MARKS else self._tail).append(span)


def _position(pid: int, descriptor: int) -> int:
    """Raises OSError, ValueError."""
    for line in Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "pos":
            return int(value)
    raise ValueError("no position")
