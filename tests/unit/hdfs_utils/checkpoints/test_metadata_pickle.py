"""PyTorch's pickles run no code of whoever wrote them. PyTorch itself is not here: its modules are
stood in for, with the names that its pickles have."""

from __future__ import annotations

import collections
import copyreg
import enum
import importlib
import io
import os
import pickle
import pickletools
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils import checkpoints
from hdfs_utils.checkpoints.frameworks import metadata_pickle
from hdfs_utils.errors import CorruptData, MalformedData, NotSupported
from tests.fakes.files import MemoryFiles

METADATA = "torch.distributed.checkpoint.metadata"


class dtype:  # noqa: N801 - as PyTorch calls it
    """Pickled by its name in ``torch``, as PyTorch's."""

    __module__ = "torch"

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> str:
        return self.name


class Size(tuple):  # type: ignore[type-arg]
    __module__ = "torch"
    __slots__ = ()

    def __reduce__(self) -> Any:
        return (Size, (tuple(self),))


class layout:  # noqa: N801
    __module__ = "torch"


STRIDED = layout()


def _get_layout(name: str) -> layout:
    assert name == "torch.strided"
    return STRIDED


class _MEM_FORMAT_ENCODING(enum.Enum):  # noqa: N801
    TORCH_CONTIGUOUS_FORMAT = 0


@dataclass
class TensorProperties:
    dtype: Any = None
    layout: Any = STRIDED
    requires_grad: bool = False

    def __getstate__(self) -> Any:
        encoding = _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT
        return (self.dtype, self.layout, self.requires_grad, encoding)

    def __setstate__(self, state: Any) -> None:
        (self.dtype, self.layout, self.requires_grad, encoding) = state
        assert encoding is _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT


@dataclass
class ChunkStorageMetadata:
    offsets: Size
    sizes: Size


@dataclass
class TensorStorageMetadata:
    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    pass


@dataclass(frozen=True)
class MetadataIndex:
    fqn: str
    offset: Any = None
    index: int | None = None


@dataclass
class Metadata:
    state_dict_metadata: dict[str, Any]
    planner_data: Any = None
    storage_data: Any = field(default_factory=dict)


PARTS = [
    Metadata, MetadataIndex, TensorStorageMetadata, BytesStorageMetadata, ChunkStorageMetadata,
    TensorProperties, _MEM_FORMAT_ENCODING,
]  # fmt: skip


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    modules = {name: types.ModuleType(name) for name in ("torch", "torch.serialization", METADATA)}
    vars(modules["torch"]).update(
        dtype=dtype, Size=Size, layout=layout, float32=dtype("float32"), load=os.system
    )
    modules["torch.serialization"]._get_layout = _get_layout  # type: ignore[attr-defined]
    monkeypatch.setattr(_get_layout, "__module__", "torch.serialization")
    for part in PARTS:
        monkeypatch.setattr(part, "__module__", METADATA)
        setattr(modules[METADATA], part.__name__, part)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    copyreg.pickle(layout, lambda _: (_get_layout, ("torch.strided",)))
    yield modules["torch"]
    copyreg.dispatch_table.pop(layout, None)


def description() -> Metadata:
    [float32] = [vars(sys.modules["torch"])["float32"]]
    whole = Size((4, 2))
    chunk = ChunkStorageMetadata(Size((0, 0)), whole)
    index = MetadataIndex("model.w", Size((0, 0)), 0)
    return Metadata(
        {
            "model.w": TensorStorageMetadata(TensorProperties(float32), whole, [chunk]),
            "epoch": BytesStorageMetadata(),
        },
        {"model.w": ("model", "w"), "epoch": ("epoch",), "list.0": ("list", 0)},
        {index: metadata_pickle.Stored("dcp/00000/000000", "float32")},
    )


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_what_pytorch_writes_is_read(protocol: int) -> None:
    assert metadata_pickle.loads(pickle.dumps(description(), protocol)) == description()


def test_the_stand_ins_are_pickled_by_the_names_that_pytorch_has() -> None:
    operations = pickletools.genops(pickle.dumps(description(), 2))
    named = {arg for op, arg, _ in operations if op.name == "GLOBAL"}
    # Pythons before 3.11.4 pickle a member of an Enum so.
    assert named - {"__builtin__ getattr"} == {
        *(f"{METADATA} {part.__name__}" for part in PARTS),
        "torch Size",
        "torch float32",
        "torch.serialization _get_layout",
        "hdfs_utils.checkpoints.frameworks.metadata_pickle Stored",
    }


def test_members_of_an_enum_as_older_pythons_pickle_them() -> None:
    data = b"\x80\x04cbuiltins\ngetattr\nc%s\n_MEM_FORMAT_ENCODING\nV%s\n\x86R."
    name = b"TORCH_CONTIGUOUS_FORMAT"
    for pickled in (data, data.replace(b"\x04cbuiltins", b"\x02c__builtin__")):
        found = metadata_pickle.loads(pickled % (METADATA.encode(), name))
        assert found is _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT
    for module, attribute in ((METADATA.encode(), b"__init__"), (b"torch", b"__class__")):
        with pytest.raises((NotSupported, MalformedData)):
            metadata_pickle.loads(data % (module, attribute))


class Evil:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self._reduced = (call, arguments)

    def __reduce__(self) -> Any:
        return self._reduced


def global_(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n.".encode()


def stack_global(module: str, name: str) -> bytes:
    parts = [b"\x8c%c%s" % (len(text), text.encode()) for text in (module, name)]
    return b"\x80\x04" + b"".join(parts) + b"\x93."


NAMED = [
    ("os", "system"),
    ("posix", "system"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "__import__"),
    ("torch", "load"),
    ("torch", "os"),
    ("torch.serialization", "load"),
    (METADATA, "os.system"),
    (METADATA, "Metadata.__init__.__globals__"),
    (METADATA, "__builtins__"),
    ("hdfs_utils.checkpoints.frameworks.metadata_pickle", "pickle"),
    ("hdfs_utils.checkpoints.frameworks.metadata_pickle", "loads"),
    ("collections", "namedtuple"),
    ("functools", "partial"),
    ("copyreg", "_reconstructor"),
]


@pytest.mark.parametrize(("module", "name"), NAMED)
@pytest.mark.parametrize("encode", [global_, stack_global])
def test_no_other_name_is_looked_up(module: str, name: str, encode: Any) -> None:
    with pytest.raises(NotSupported, match="names"):
        metadata_pickle.loads(encode(module, name))


def test_nothing_is_called_and_nothing_is_imported(tmp_path: Path) -> None:
    trace = tmp_path / "called"
    evil = Evil(os.system, f"touch {trace}")
    whole = description()
    for place in (evil, {"a": evil}, whole):
        whole.planner_data = evil
        with pytest.raises(NotSupported):
            metadata_pickle.loads(pickle.dumps(place))
    sys.modules.pop("this", None)
    with pytest.raises(NotSupported):
        metadata_pickle.loads(global_("this", "s"))
    assert not trace.exists()
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"nonsense", b"(" * 10_000, b"\x80\x04P1\n.", pickle.dumps([1])[:-3]]
)
def test_what_is_no_pickle(data: bytes) -> None:
    with pytest.raises(MalformedData):
        metadata_pickle.loads(data)


def test_plain_values_of_a_planner() -> None:
    plain = collections.OrderedDict(a=(1, 2.0, "x", b"y", None, True, {3}, frozenset({4})))
    assert metadata_pickle.loads(pickle.dumps(plain)) == plain


# ---- the reader itself ---------------------------------------------------------------------------


def stand_ins() -> dict[str, types.ModuleType]:
    """What ``torch_distributed`` imports beside the classes above."""
    names = {
        "torch.distributed": [],
        "torch.distributed.checkpoint": ["CheckpointException"],
        "torch.distributed.checkpoint.planner": [
            "LoadItemType", "LoadPlan", "LoadPlanner", "SavePlan", "SavePlanner", "WriteItemType",
        ],
        "torch.distributed.checkpoint.storage": ["StorageReader", "StorageWriter", "WriteResult"],
        "torch.futures": ["Future"],
    }  # fmt: skip
    found = {}
    for module, classes in names.items():
        found[module] = types.ModuleType(module)
        for name in classes:
            setattr(found[module], name, type(name, (), {"set_result": lambda *_: None}))
    item_type = found["torch.distributed.checkpoint.planner"].LoadItemType
    item_type.BYTE_IO, item_type.TENSOR = "bytes", "tensor"
    found["torch.distributed"].checkpoint = found["torch.distributed.checkpoint"]  # type: ignore[attr-defined]
    return found


@pytest.fixture
def torch_distributed(torch: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    for name, module in stand_ins().items():
        monkeypatch.setitem(sys.modules, name, module)
    name = "hdfs_utils.checkpoints.frameworks.torch_distributed"
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(name)
    sys.modules.pop(name, None)


def opened(values: dict[str, Any]) -> checkpoints.OpenCheckpoint:
    fs = MemoryFiles()
    return checkpoints.open_checkpoint(checkpoints.save("/c", 1, values, fs=fs), fs=fs)


def test_the_reader_takes_a_description_and_no_other(torch_distributed: Any) -> None:
    def read(data: bytes) -> Any:
        found = opened({torch_distributed.METADATA: data})
        return torch_distributed.DcpReader(found).read_metadata()

    assert read(pickle.dumps(description())) == description()
    with pytest.raises(CorruptData, match="does not describe"):
        read(pickle.dumps({}))
    with pytest.raises(CorruptData, match="/c/step-"):
        read(b"no pickle")
    with pytest.raises(NotSupported, match=r"/c/step-.*posix\.system|/c/step-.*nt\.system"):
        read(pickle.dumps(Evil(os.system, "true")))


def test_objects_pass_the_safe_loader_before_a_planner_unpickles_them(
    torch: Any, torch_distributed: Any
) -> None:
    def load(file: io.BytesIO, map_location: str, weights_only: bool) -> object:
        """Refuses what PyTorch's refuses: a pickle that names anything."""
        assert (map_location, weights_only) == ("cpu", True)
        if any(op.name in ("GLOBAL", "STACK_GLOBAL") for op, _, _ in pickletools.genops(file)):
            raise pickle.UnpicklingError("Unsupported global: GLOBAL posix.system")
        return None

    torch.load = load
    torch.__version__ = "2.6.0+cu124"
    given: list[bytes] = []
    planner = types.SimpleNamespace(load_bytes=lambda _item, value: given.append(value.read()))

    def read(data: bytes) -> None:
        index = MetadataIndex("epoch")
        reader = torch_distributed.DcpReader(opened({"o": data}))
        described = Metadata({}, None, {index: metadata_pickle.Stored("o")})
        reader.set_up_storage_reader(described, True)
        item = types.SimpleNamespace(type="bytes", storage_index=index, dest_index=index)
        reader.read_data(types.SimpleNamespace(items=[item]), planner)

    read(pickle.dumps({"epoch": 3}))
    assert given == [pickle.dumps({"epoch": 3})]
    with pytest.raises(NotSupported, match=r"'epoch'.*add_safe_globals.*posix\.system"):
        read(pickle.dumps(Evil(os.system, "true")))
    assert len(given) == 1
    torch.__version__ = "2.5.1"
    with pytest.raises(NotSupported, match=r"'epoch'.*CVE-2025-32434.*2\.6 or newer"):
        read(pickle.dumps({"epoch": 3}))
    assert len(given) == 1


@pytest.mark.parametrize(
    ("version", "is_safe"),
    [
        ("2.5.1+cu121", False),
        ("1.13.0", False),
        ("2.6.0", True),
        ("2.10.0a0+git1", True),
        ("3.0", True),
        ("unknown", False),
    ],
)
def test_a_loader_is_safe_from_2_6_on(version: str, is_safe: bool) -> None:
    assert metadata_pickle.has_safe_loader(version) is is_safe


def test_a_few_bytes_take_no_memory() -> None:
    """Nine bytes that put ``None`` into the memo with the number 60,000,000: 916 MiB."""
    far = b"\x80\x02Nr" + (60_000_000).to_bytes(4, "little") + b"."
    with pytest.raises(MalformedData):
        metadata_pickle.loads(far)
