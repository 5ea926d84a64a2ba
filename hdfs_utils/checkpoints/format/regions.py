"""Which bytes of a stored part hold a region of its array. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Region:
    """A box of a global array: where it begins and how far it goes, for each axis."""

    start: tuple[int, ...]
    extent: tuple[int, ...]

    @property
    def stop(self) -> tuple[int, ...]:
        """Where it ends, for each axis."""
        return tuple(a + n for a, n in zip(self.start, self.extent, strict=True))

    @property
    def size(self) -> int:
        return math.prod(self.extent)

    def shifted(self, origin: Sequence[int]) -> Region:
        """The same box seen from ``origin``."""
        return Region(tuple(a - o for a, o in zip(self.start, origin, strict=True)), self.extent)

    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(a, a + n) for a, n in zip(self.start, self.extent, strict=True))


@dataclass(frozen=True, slots=True)
class Span:
    """A contiguous piece of a part, in bytes from its beginning, that holds a box of it.

    Attributes:
        start: first byte.
        stop: one after the last.
        shape: the bytes are an array of this shape...
        inside: ...of which this box is wanted...
        box: ...and is this box of the part.
    """

    start: int
    stop: int
    shape: tuple[int, ...]
    inside: Region
    box: Region


def whole(shape: Sequence[int]) -> Region:
    """The region that is all of an array."""
    return Region((0,) * len(shape), tuple(shape))


def of_slices(index: Sequence[slice], shape: Sequence[int]) -> Region:
    """From slices, open ends allowed. Raises ValueError: a step, or outside of the array."""
    if len(index) != len(shape):
        raise ValueError(f"{len(index)} slices for an array of {len(shape)} axes")
    start, extent = [], []
    for part, size in zip(index, shape, strict=True):
        first, last, step = part.indices(size)
        if step != 1:
            raise ValueError("a region is contiguous: no steps")
        start.append(first)
        extent.append(max(0, last - first))
    return Region(tuple(start), tuple(extent))


def intersect(one: Region, other: Region) -> Region | None:
    """What both have; None where that is nothing."""
    start = tuple(map(max, one.start, other.start))
    stop = tuple(map(min, one.stop, other.stop))
    if any(b <= a for a, b in zip(start, stop, strict=True)):
        return None
    return Region(start, tuple(b - a for a, b in zip(start, stop, strict=True)))


def spans(
    extent: Sequence[int], itemsize: int, wanted: Region, chunk: int, limit: int
) -> Iterator[Span]:
    """The pieces of a stored part that hold the box ``wanted`` of it.

    Along the axes whose rows are larger than ``chunk`` only the wanted rows are taken. Smaller
    gaps are read over, since a chunk is verified as a whole anyway.

    Args:
        extent: the part's shape; stored in C order.
        itemsize: bytes of one element.
        wanted: a box of the part, not empty.
        chunk: size of the checksummed chunks in bytes.
        limit: roughly the largest piece in bytes; a single row may be larger.
    """
    axes = len(extent)
    if axes == 0:
        yield Span(0, itemsize, (), Region((), ()), Region((), ()))
        return
    strides = [itemsize * math.prod(extent[axis + 1 :]) for axis in range(axes)]
    split = next((axis for axis in range(axes) if strides[axis] <= chunk), axes - 1)
    stride = strides[split]
    rows = max(1, limit // max(1, stride))
    outer = [range(a, a + n) for a, n in zip(wanted.start, wanted.extent, strict=True)][:split]
    first, last = wanted.start[split], wanted.stop[split]
    inner_start, inner_extent = wanted.start[split + 1 :], wanted.extent[split + 1 :]
    for place in itertools.product(*outer):
        base = sum(at * step for at, step in zip(place, strides, strict=False))
        for row in range(first, last, rows):
            count = min(rows, last - row)
            yield Span(
                start=base + row * stride,
                stop=base + (row + count) * stride,
                shape=(1,) * split + (count, *extent[split + 1 :]),
                inside=Region(
                    (0,) * (split + 1) + inner_start, (1,) * split + (count, *inner_extent)
                ),
                box=Region((*place, row, *inner_start), (1,) * split + (count, *inner_extent)),
            )
