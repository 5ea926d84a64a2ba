"""``torch.distributed.checkpoint`` on checkpoints that are fenced, verified and agreed on.

For models whose tensors are spread over ranks (FSDP, tensor parallel)::

    torch_distributed.save(checkpointer, step, state)
    found = checkpointer.restore(lambda opened: torch_distributed.load(opened, state))

All ranks make both calls. PyTorch plans which rank writes and reads what, also onto another world
size; each rank writes one shard. PyTorch describes the whole in a pickle of its own, of which only
PyTorch's own classes are read (:mod:`hdfs_utils.checkpoints.frameworks.metadata_pickle`). With
``dcp.async_save`` give a :class:`DcpWriter` yourself.
"""

from __future__ import annotations

import dataclasses
import io
import os
import pickle
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from hdfs_utils.checkpoints.checkpointer import Checkpointer
from hdfs_utils.checkpoints.commit.fence import Fence
from hdfs_utils.checkpoints.commit.save_operation import SaveOperation, SaveSpec
from hdfs_utils.checkpoints.format import shard_file
from hdfs_utils.checkpoints.format.manifest import Checkpoint, copy_of_metadata
from hdfs_utils.checkpoints.format.reader import OpenCheckpoint
from hdfs_utils.checkpoints.format.regions import Region
from hdfs_utils.checkpoints.format.shard_file import Identity
from hdfs_utils.checkpoints.format.values import Source, sources
from hdfs_utils.checkpoints.frameworks import metadata_pickle
from hdfs_utils.checkpoints.frameworks.metadata_pickle import Stored
from hdfs_utils.checkpoints.frameworks.torch_state import to_array
from hdfs_utils.concurrency.retry import retry
from hdfs_utils.errors import CorruptData, HdfsError, MalformedData, NotSupported

METADATA = "dcp/metadata"


@dataclasses.dataclass(frozen=True)
class _Save:
    """What rank 0 tells the others: the save's name and who writes."""

    name: str
    claim: Any
    saved_ms: int
    rank: int
    world_size: int


def save(
    checkpointer: Checkpointer,
    step: int,
    state: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Checkpoint | None:
    """Save a state dictionary from all ranks; gives the checkpoint on rank 0.

    Raises:
        Fenced: a successor has taken over; stop.
        HdfsError: it did not become a checkpoint.
    """
    writer = DcpWriter(checkpointer, step, metadata, metrics)
    try:
        dcp.save(dict(state), storage_writer=writer)
    except dcp.CheckpointException as error:
        raise _cause(error) from error
    return writer.committed


def load(opened: OpenCheckpoint, state: dict[str, Any]) -> dict[str, Any]:
    """Fill a state dictionary from a checkpoint, in the shardings that its tensors have.

    Raises:
        CorruptData: some rank read what was not saved.
    """
    try:
        dcp.load(state, storage_reader=DcpReader(opened))
    except dcp.CheckpointException as error:
        raise _cause(error) from error
    return state


def _cause(error: dcp.CheckpointException) -> BaseException:
    """The error of a rank that says most: PyTorch gives those of all ranks together."""
    found: list[BaseException] = [failure[0] for failure in error.failures.values()]
    for kind in (CorruptData, HdfsError):
        for one in found:
            if isinstance(one, kind):
                return one
    own: BaseException = error
    return own


class DcpWriter(StorageWriter):  # type: ignore[misc]
    """PyTorch's interface of a storage to write to; for one save.

    Attributes:
        committed: the checkpoint, on rank 0, when it exists.
    """

    def __init__(
        self,
        checkpointer: Checkpointer,
        step: int,
        metadata: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.committed: Checkpoint | None = None
        self._checkpointer = checkpointer
        self._step = step
        self._metadata = copy_of_metadata(metadata)
        self._metrics = dict(metrics or {})
        self._save: _Save | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Nothing: a writer is for one save."""

    def set_up_storage_writer(self, is_coordinator: bool, *_: Any, **__: Any) -> None:
        """Rank 0 claims the epoch."""
        if is_coordinator:
            self._checkpointer.enter()

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Rank 0 tells all ranks what the save is called."""
        fence = self._checkpointer.enter()
        name, saved_ms = self._checkpointer.new_name(self._step)
        told = [_Save(name, fence.claim_, saved_ms, rank, len(plans)) for rank in range(len(plans))]
        return [
            dataclasses.replace(plan, storage_data=one)
            for plan, one in zip(plans, told, strict=True)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        save = self._save = plan.storage_data
        found: list[Source] = []
        results = []
        for number, item in enumerate(plan.items):
            name = f"dcp/{save.rank:05d}/{number:06d}"
            data = planner.resolve_data(item)
            if item.type is WriteItemType.BYTE_IO:
                value, stored = data.getbuffer(), Stored(name)
            else:
                dtype = str(data.dtype).removeprefix("torch.")
                value, stored = to_array(data), Stored(name, dtype)
            [source] = sources({name: value}, 0, 1)
            found.append(source)
            results.append(WriteResult(item.index, source.length, stored))
        self._write(self._plan(save, save.rank), found)
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Rank 0 adds PyTorch's description as a shard of its own, and commits."""
        save = self._save
        assert save is not None
        metadata.storage_data = {one.index: one.storage_data for each in results for one in each}
        [source] = sources({METADATA: pickle.dumps(metadata)}, 0, 1)
        self._write(self._plan(save, save.world_size), [source])
        saving = SaveOperation(self._plan(save, 0), ())
        saving.is_ours = True
        retry(saving.commit, self._checkpointer.limits.patience_s)
        self.committed = saving.committed
        self._checkpointer.clear_after(saving)

    def _plan(self, save: _Save, rank: int) -> SaveSpec:
        fence = Fence(self._checkpointer.fs, self._checkpointer.root, save.claim)
        identity = Identity(self._step, fence.epoch, rank, save.world_size + 1)
        return SaveSpec(fence, save.name, identity, save.saved_ms, self._metrics, self._metadata)

    def _write(self, plan: SaveSpec, found: list[Source]) -> None:
        held = self._checkpointer.hold(plan, found)
        if held is not None:
            held.fill(changing_only=False)

        def write() -> tuple[int, ...]:
            plan.fence.check()
            sources = found if held is None else held.sources
            return shard_file.write(plan.fence.fs, plan.path, plan.identity, sources)

        try:
            chunks = retry(write, self._checkpointer.limits.patience_s)
        except BaseException:
            if held is not None:
                held.abandon()
            raise
        if held is not None:
            held.seal(chunks)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """No: it cannot be chosen by a path alone."""
        return False


class DcpReader(StorageReader):  # type: ignore[misc]
    """PyTorch's interface of a storage to read from: one checkpoint."""

    def __init__(self, opened: OpenCheckpoint) -> None:
        super().__init__()
        self._opened = opened
        self._stored: dict[Any, Stored] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Nothing: a reader is for one checkpoint."""

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        place = self._opened.checkpoint.path
        try:
            found = metadata_pickle.loads(self._opened.plain(METADATA))
        except (MalformedData, NotSupported) as error:
            error.path, error.operation = place, "load"
            raise
        if not isinstance(found, Metadata):
            message = "does not describe a checkpoint of torch.distributed"
            raise CorruptData(message, path=place, operation="load")
        return found

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *_: Any, **__: Any
    ) -> None:
        """Remember where everything is."""
        self._stored = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read what this rank needs, the regions of all its tensors together."""
        tensors = [item for item in plan.items if item.type is not LoadItemType.BYTE_IO]
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                data = self._opened.plain(self._stored[item.storage_index].name)
                self._check_object(item.dest_index.fqn, data)
                planner.load_bytes(item, io.BytesIO(data))
        wanted = [
            (
                self._stored[item.storage_index].name,
                Region(tuple(item.storage_offsets), tuple(item.lengths)),
            )
            for item in tensors
        ]
        for item, array in zip(tensors, self._opened.regions(wanted), strict=True):
            dtype = getattr(torch, self._stored[item.storage_index].dtype)
            target = planner.resolve_tensor(item).detach()
            target.copy_(torch.from_numpy(array).view(dtype))
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _check_object(self, name: str, data: bytes) -> None:
        """PyTorch's planner unpickles all but tensors, and calls what the pickle names. So
        PyTorch's own safe loader reads it first, where it is one."""
        if not metadata_pickle.has_safe_loader(torch.__version__):
            message = (
                f"{name!r:.200} is not a tensor, and torch.load(weights_only=True) of PyTorch "
                f"{torch.__version__} can run code (CVE-2025-32434): use PyTorch 2.6 or newer, or "
                "save tensors alone"
            )
            path = self._opened.checkpoint.path
            raise NotSupported(message, path=path, operation="load")
        try:
            torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            message = (
                f"{name!r:.200} is not a tensor and names more than PyTorch loads safely; if you "
                "trust who saved it, allow its class by torch.serialization.add_safe_globals: "
                f"{str(error).strip()[:500]}"
            )
            path = self._opened.checkpoint.path
            raise NotSupported(message, path=path, operation="load") from error

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """No: it cannot be chosen by a path alone."""
        return False
