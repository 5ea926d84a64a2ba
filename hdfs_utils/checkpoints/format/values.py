"""What can be saved: bytes, files, arrays and parts of arrays, as sources of bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from hdfs_utils.checkpoints.format.manifest import CHUNK, ArrayPart, is_name
from hdfs_utils.errors import InvalidPath

if TYPE_CHECKING:
    import numpy as np

# One read of a local file.
_READ = 4 << 20


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on this machine, read while it is saved: do not change it before that is done."""

    path: Path


@dataclass(frozen=True, slots=True)
class Part:
    """This process's part of an array that is spread over several.

    Attributes:
        data: the part.
        shape: of the whole array.
        start: where the part begins in it, for each axis.
        is_frozen: nobody will change the data: a save in the background need not copy it.
    """

    data: Any
    shape: tuple[int, ...]
    start: tuple[int, ...]
    is_frozen: bool = False


@dataclass(frozen=True, slots=True)
class PerRank:
    """A value that each rank has a different one of: it is stored as ``<name>/rank-<rank>``."""

    value: Any


Value = Any
"""bytes-like, LocalFile, Part, a list of Part, Own, a Source of its own name, or what NumPy can
make an array of."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of an open file, from ``offset`` on."""

    fd: int
    offset: int

    def blocks(self, length: int) -> Iterator[bytes]:
        """The bytes in pieces of ``CHUNK``; only the last may be shorter."""
        for start in range(0, length, CHUNK):
            size = min(CHUNK, length - start)
            data = os.pread(self.fd, size, self.offset + start)
            if len(data) < size:
                raise InvalidPath("a file became shorter while it was saved", operation="save")
            yield data


@dataclass(frozen=True, slots=True)
class Source:
    """One entry to be: its name, its length in bytes, where they come from, whether they stay."""

    name: str
    length: int
    content: Union[memoryview, Path, FileRange]
    array: ArrayPart | None = None
    is_frozen: bool = False

    def pieces(self) -> Iterator[memoryview]:
        """The bytes, in pieces of any size."""
        if isinstance(self.content, memoryview):
            yield self.content
            return
        if isinstance(self.content, FileRange):
            yield from (memoryview(block) for block in self.content.blocks(self.length))
            return
        left = self.length
        with self.content.open("rb") as file:
            while left and (piece := file.read(min(_READ, left))):
                left -= len(piece)
                yield memoryview(piece)
        if left:
            message = f"{self.content} became shorter while it was saved"
            raise InvalidPath(message, path=str(self.content), operation="save")


def sources(values: Mapping[str, Value], rank: int, world_size: int) -> list[Source]:
    """What one rank has to write.

    A Part is written by the rank that has it, an Own by each rank; everything else is taken to
    be the same on all ranks and is written by rank 0.

    Raises:
        InvalidPath: a name that cannot be one.
        TypeError: a value that cannot be saved.
        ValueError: a part that lies outside of its array.
    """
    found: list[Source] = []
    for name, value in values.items():
        check_name(name)
        if isinstance(value, PerRank):
            found.extend(_sources(per_rank_name(name, rank), value.value))
        elif isinstance(value, Part) or _is_parts(value) or rank == 0:
            found.extend(_sources(name, value))
    return found


def files_below(directory: str | Path, prefix: str = "") -> dict[str, LocalFile]:
    """The files of a local directory as values: for frameworks that write files of their own.

    Args:
        directory: what some other library has written.
        prefix: put before each name, such as ``model/``.
    """
    root = Path(directory)
    return {
        f"{prefix}{path.relative_to(root).as_posix()}": LocalFile(path)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def per_rank_name(name: str, rank: int) -> str:
    """The name of a value that each rank saves for itself."""
    return f"{name}/rank-{rank}"


def check_name(name: str) -> None:
    """Whether a value can have this name: names are paths, see :func:`is_name`.

    Raises:
        InvalidPath: empty, absolute, or with an empty, ``.`` or ``..`` part.
    """
    if not is_name(name):
        raise InvalidPath(f"{name!r} cannot be the name of a value", path=name, operation="save")


def _is_parts(value: Value) -> bool:
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(part, Part) for part in value)
    )


def _sources(name: str, value: Value) -> Iterator[Source]:
    if isinstance(value, (bytes, bytearray, memoryview)):
        view = memoryview(value).cast("B")
        yield Source(name, len(view), view, is_frozen=isinstance(value, bytes))
    elif isinstance(value, Source):
        yield value
    elif isinstance(value, LocalFile):
        yield Source(name, value.path.stat().st_size, value.path)
    elif isinstance(value, Part):
        yield _array(name, value.data, value.shape, value.start, value.is_frozen)
    elif _is_parts(value):
        for part in value:
            yield _array(name, part.data, part.shape, part.start, part.is_frozen)
    else:
        yield _array(name, value, None, None, False)


def _array(
    name: str, data: Any, shape: Sequence[int] | None, start: Sequence[int] | None, is_frozen: bool
) -> Source:
    import numpy as np

    array = np.asarray(data)
    full = tuple(array.shape if shape is None else shape)
    first = tuple((0,) * len(full) if start is None else start)
    ends = [a + n for a, n in zip(first, array.shape, strict=False)]
    if not len(first) == len(full) == array.ndim or any(
        a < 0 or b > n for a, b, n in zip(first, ends, full, strict=True)
    ):
        message = f"{name}: a part of shape {array.shape} at {first} is not within {full}"
        raise ValueError(message)
    spec = ArrayPart(dtype_name(array.dtype, name), full, first, tuple(array.shape))
    # Bytes, since the buffer protocol does not know all of NumPy's types.
    flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return Source(name, array.nbytes, memoryview(flat).cast("B"), spec, is_frozen)


def dtype_name(dtype: np.dtype[Any], name: str = "") -> str:
    """A text for a type of elements: ``<f4``, or ``bfloat16`` and the like of ml_dtypes.

    Raises:
        TypeError: Python objects (they could only be stored as a pickle, which runs code when it
            is loaded), or records.
    """
    if dtype.hasobject:
        raise TypeError(f"{name} is an array of Python objects")
    if dtype.names is not None:
        raise TypeError(f"{name} is an array of records; save each field as an array")
    # What NumPy does not know itself calls itself bytes without a meaning.
    return str(dtype.name if dtype.kind == "V" else dtype.str)


def dtype_of(text: str) -> np.dtype[Any]:
    """Inverse of :func:`dtype_name`. Raises ValueError for anything that it does not give."""
    import numpy as np

    found: np.dtype[Any]
    try:
        found = np.dtype(text)
    except TypeError:
        import ml_dtypes

        try:
            found = np.dtype(getattr(ml_dtypes, text))
        except (AttributeError, TypeError):
            raise ValueError(f"{text!r} is not an element type") from None
    if found.hasobject or found.names is not None or not found.itemsize:
        raise ValueError(f"{text!r} is not an element type that can be saved")
    return found
