"""NumPy (npy, npz), HDF5 and safetensors."""

from __future__ import annotations

import json
import re
from typing import Any, BinaryIO

from hdfs_utils.errors import HdfsError
from hdfs_utils.validation.findings import (
    Corrupt,
    Findings,
    NotSupported,
    OverLimit,
    Reason,
    is_of_memory,
    needed,
    out_of_memory,
)
from hdfs_utils.validation.input_format import InputFormat, begins_with
from hdfs_utils.validation.sources import PIECE, Source, Stream

NPY_MAGIC = b"\x93NUMPY"
# What NumPy itself reads of a header that it does not trust (numpy.lib.format).
_MAX_NPY_HEADER = 10_000
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# The reference implementation refuses longer ones.
_MAX_SAFETENSORS_HEADER = 100_000_000
# https://github.com/huggingface/safetensors, tensor.rs
_SAFETENSORS_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32,
    "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F8_E5M2": 8,
    "F8_E4M3": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


_PYTHON_2_LONG = re.compile(r"\b(\d+)L\b")


def check_npy(source: Source, found: Findings) -> None:
    """The header, and that exactly the data it announces follow."""
    np = needed("numpy")
    stream = source.stream()
    start = stream.read(8)
    if start[:6] != NPY_MAGIC[: len(start)]:
        raise Corrupt(Reason.BAD_MAGIC, "does not begin as .npy does", 0)
    # np.save to one handle again and again is how NumPy's manual stores several arrays.
    while start:
        size = _npy_data_size(np, start, stream)
        begin = stream.offset
        passed = stream.skip(size)
        if passed < size:
            message = f"ends {size - passed} bytes before the end of its data"
            raise Corrupt(Reason.TRUNCATED, message, begin + passed)
        found.records += 1
        start = stream.read(8)
        if start[:6] != NPY_MAGIC[: len(start)]:
            raise Corrupt(Reason.TRAILING_DATA, "bytes follow the end of the array", begin + size)
    found.note(Reason.UNPROTECTED, ".npy has no checksums: only its header and size were checked")


def _npy_data_size(np: Any, start: bytes, stream: Stream) -> int:
    """From the header (numpy.lib.format); bytes."""
    if len(start) < 8:
        raise Corrupt(Reason.TRUNCATED, "ends within its header", len(start))
    width = {1: 2, 2: 4, 3: 4}.get(start[6])
    if width is None:
        raise NotSupported(f".npy of version {start[6]}.{start[7]}")
    length = int.from_bytes(stream.read(width), "little")
    if length > _MAX_NPY_HEADER:
        raise OverLimit(f"a header of {length} bytes; NumPy takes {_MAX_NPY_HEADER}")
    text = stream.read(length)
    if len(text) < length:
        raise Corrupt(Reason.TRUNCATED, "ends within its header", stream.offset)
    try:
        import ast

        literal = text.decode("utf-8" if start[6] == 3 else "latin-1")
        # Python 2 wrote (2L, 3L), which NumPy reads (numpy.lib.format._filter_header).
        header = ast.literal_eval(_PYTHON_2_LONG.sub(r"\1", literal) if start[6] < 3 else literal)
        shape = tuple(int(n) for n in header["shape"])
        dtype = np.dtype(np.lib.format.descr_to_dtype(header["descr"]))
        if header.keys() != {"descr", "fortran_order", "shape"} or any(n < 0 for n in shape):
            raise ValueError("its keys or its shape")
        if not isinstance(header["fortran_order"], bool):
            raise ValueError("fortran_order")
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        # MemoryError is what Python's parser says of deep nesting (a header is 10 kB at most).
        raise Corrupt(Reason.BAD_STRUCTURE, f"the header is not one: {error}", 10) from error
    if dtype.hasobject:
        raise NotSupported("an array of Python objects (pickle), which is not loaded")
    size = int(dtype.itemsize)
    for extent in shape:
        size *= extent
    return size


def check_hdf5(source: Source, found: Findings) -> None:
    """Opened, every group visited and every dataset read: checks Fletcher-32 where it is on."""
    h5py = needed("h5py")
    with source.open() as file:
        if not _has_hdf5_signature(file, source.size or 0):
            raise Corrupt(Reason.BAD_MAGIC, "does not begin as HDF5 does", 0)
        if _is_left_open(file):
            message = "its writer has not closed it: HDF5 refuses to open it (see h5clear -s)"
            raise Corrupt(Reason.TRUNCATED, message, 0)
        file.seek(0)
        is_protected = True
        try:
            with h5py.File(file, "r") as opened:
                names: list[str] = []
                opened.visit(names.append)
                for name in names:
                    item = opened[name]
                    if isinstance(item, h5py.Dataset):
                        is_protected &= bool(item.fletcher32)
                        _read_dataset(found, name, item)
        except HdfsError:
            raise
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise _hdf5_error("the file", error) from error
    if not is_protected:
        found.note(Reason.UNPROTECTED, "datasets without Fletcher-32 were read, not proved")


def _is_left_open(file: BinaryIO) -> bool:
    """By the consistency flags of a superblock of version 2 or 3, which follow the signature that
    has just been read (format specification, II.A). A program that opens the file by its path is
    refused; one that reads it as a stream, as is done here, is not."""
    version_and_sizes = file.read(4)
    return (
        len(version_and_sizes) == 4
        and version_and_sizes[0] in {2, 3}
        and bool(version_and_sizes[3] & _OPEN_FOR_WRITE)
    )


_OPEN_FOR_WRITE = 0x01


def _has_hdf5_signature(file: BinaryIO, size: int) -> bool:
    """At byte 0, or after a user block of 512, 1024, 2048... bytes (format specification, II.A)."""
    at = 0
    while at < max(1, size):
        file.seek(at)
        if file.read(8) == HDF5_MAGIC:
            return True
        at = 2 * at or 512
    return False


def _read_dataset(found: Findings, name: str, item: Any) -> None:
    with found.catching():
        try:
            if item.chunks:
                for part in item.iter_chunks():
                    item[part]
            elif item.shape and item.size:
                rows = max(1, PIECE // max(1, item.nbytes // item.shape[0]))
                for first in range(0, item.shape[0], rows):
                    item[first : first + rows]
            elif item.shape == ():
                item[()]
        except HdfsError:
            raise
        except (OSError, RuntimeError, ValueError) as error:
            raise _hdf5_error(f"dataset {name}", error) from error
        found.records += 1


def _hdf5_error(what: str, error: BaseException) -> Corrupt:
    text = str(error).partition("\n")[0]
    if is_of_memory(text):
        raise out_of_memory() from error
    reason = Reason.TRUNCATED if "truncated" in text else Reason.BAD_DATA
    if "filter" in text and "not available" in text.lower():
        raise NotSupported(f"{what}: {text}") from error
    if "fletcher" in text.lower() or "checksum" in text.lower():
        reason = Reason.BAD_CRC
    return Corrupt(reason, f"{what}: {text}")


def check_safetensors(source: Source, found: Findings) -> None:
    """The header, and that its tensors cover the file without gap or overlap."""
    stream = source.stream()
    start = stream.read(8)
    if len(start) < 8:
        raise Corrupt(Reason.TRUNCATED, "ends within the header's length", 0)
    length = int.from_bytes(start, "little")
    if length > _MAX_SAFETENSORS_HEADER:
        raise Corrupt(Reason.BAD_STRUCTURE, f"a header of {length} bytes", 0)
    text = stream.read(length)
    if len(text) < length:
        raise Corrupt(Reason.TRUNCATED, "ends within its header", len(text) + 8)
    end = 0
    for name, begin, stop, size in sorted(_safetensors(text), key=lambda t: (t[1], t[2])):
        if begin != end or stop - begin != size:
            message = f"tensor {name} lies at {begin} to {stop}, {end} to {end + size} was due"
            raise Corrupt(Reason.BAD_STRUCTURE, message, 8 + length + begin)
        end = stop
        found.records += 1
    passed = stream.skip(end)
    if passed < end:
        early = f"ends {end - passed} bytes early"
        raise Corrupt(Reason.TRUNCATED, early, 8 + length + passed)
    if stream.read(1):
        raise Corrupt(Reason.TRAILING_DATA, "bytes follow the last tensor", 8 + length + end)
    found.note(Reason.UNPROTECTED, "safetensors has no checksums: its structure was checked")


def _safetensors(text: bytes) -> list[tuple[str, int, int, int]]:
    """Name, begin, end and the size that dtype and shape ask for."""
    try:
        header = json.loads(text)
        tensors = []
        for name, item in header.items():
            if name == "__metadata__":
                continue
            begin, stop = (int(n) for n in item["data_offsets"])
            bits = _SAFETENSORS_BITS[item["dtype"]]
            for extent in item["shape"]:
                bits *= int(extent)
                # Else long products take time that grows with the square of the header.
                if not 0 <= bits < 1 << 67 or extent < 0:
                    raise ValueError("its shape")
            if not 0 <= begin <= stop:
                raise ValueError("its offsets")
            tensors.append((name, begin, stop, bits // 8))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Corrupt(Reason.BAD_STRUCTURE, f"the header is not one: {error!r}", 8) from error
    return tensors


FORMATS = (
    InputFormat(
        "npy",
        (".npy",),
        "none: the header and the size (within .npz: every byte)",
        check_npy,
        recognizes=begins_with(NPY_MAGIC),
    ),
    InputFormat(
        "hdf5",
        (".h5", ".hdf5"),
        "datasets with Fletcher-32; the structure",
        check_hdf5,
        recognizes=begins_with(HDF5_MAGIC),
    ),
    InputFormat(
        "safetensors", (".safetensors",), "none: the header and the size", check_safetensors
    ),
)
