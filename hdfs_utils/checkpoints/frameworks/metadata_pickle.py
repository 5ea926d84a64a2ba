"""What PyTorch says about a distributed checkpoint, read from its pickle without running code.

A pickle calls whatever it names. This one may name the classes that PyTorch's description is made
of, and nothing else: a checksum tells that the bytes are those that were saved, not who saved them.
"""

from __future__ import annotations

import enum
import io
import pickle
import pickletools
import re
import sys
from dataclasses import dataclass
from typing import Any

from hdfs_utils.errors import MalformedData, NotSupported
from hdfs_utils.protocols.untrusted import shown

_METADATA = "torch.distributed.checkpoint.metadata"
_ALLOWED = frozenset(
    [
        (_METADATA, "Metadata"),
        (_METADATA, "MetadataIndex"),
        (_METADATA, "TensorStorageMetadata"),
        (_METADATA, "BytesStorageMetadata"),
        (_METADATA, "ChunkStorageMetadata"),
        (_METADATA, "TensorProperties"),
        (_METADATA, "StorageMeta"),
        (_METADATA, "_MEM_FORMAT_ENCODING"),
        ("torch", "Size"),
        # How torch.layout is pickled: a look-up by its name.
        ("torch.serialization", "_get_layout"),
        ("collections", "OrderedDict"),
        (__name__, "Stored"),
    ]
)

SAFE_LOADER = (2, 6)
"""The PyTorch whose ``weights_only`` keeps its promise: CVE-2025-32434."""

_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})


@dataclass(frozen=True)
class Stored:
    """Where a tensor or some bytes are: the value's name, and the tensor's type."""

    name: str
    dtype: str = ""


def has_safe_loader(version: str) -> bool:
    """Whether ``torch.load(weights_only=True)`` of this version runs no code of the file."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= SAFE_LOADER


def loads(data: bytes) -> Any:
    """The description.

    Raises:
        NotSupported: it names another class. That is not damage: its writer put it there.
        MalformedData: it is not a pickle.
    """
    try:
        _refuse_far_memos(data)
        return _Unpickler(io.BytesIO(data)).load()
    except NotSupported:
        raise
    except Exception as error:  # Whatever the bytes make of the calls that they may make.
        raise MalformedData(f"no description of a checkpoint: {type(error).__name__}") from error


def _refuse_far_memos(data: bytes) -> None:
    """Reading sets aside room for every memo up to the highest number that is used, so nine bytes
    could take gigabytes. A writer numbers them as it goes: at most one a byte."""
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in _PUTS and int(argument or 0) > len(data):
            raise MalformedData(f"{opcode.name} {argument} in {len(data)} bytes")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        # How some versions of Python pickle members of an Enum; old protocols have Python 2's name.
        if module in ("builtins", "__builtin__") and name == "getattr":
            return _member
        if module == "torch":
            torch: Any = sys.modules["torch"]
            found = vars(torch).get(name)
            if isinstance(found, torch.dtype):
                return found
        raise NotSupported(
            f"PyTorch's description names {shown(f'{module}.{name}')}, which is not a part of one; "
            "a planner of your own has to keep to plain values in planner_data"
        )


def _member(kind: object, name: object) -> object:
    if not (isinstance(kind, type) and issubclass(kind, enum.Enum) and isinstance(name, str)):
        raise NotSupported("PyTorch's description asks for an attribute")
    return kind.__members__[name]
