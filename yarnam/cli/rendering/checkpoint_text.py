"""Checkpoints as text and as JSON, for ``yarnam ckpt``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from yarnam._light_imports import on_first_use
from yarnam.cli.rendering.console import clock_time
from yarnam.core.model.printable import size_text

if TYPE_CHECKING:
    from hdfs_utils import FileSystem
    from hdfs_utils.checkpoints import Checkpoint, PruneDecision
    from hdfs_utils.checkpoints.catalog import CheckpointListing

with on_first_use():
    from hdfs_utils.checkpoints import file_sets


def decision_row(decision: PruneDecision, *, is_done: bool) -> Sequence[str]:
    """A row of the table of `prune`."""
    words = "keep"
    if decision.goes:
        words = "would delete" if not is_done else "deleted" if decision.is_gone else "in use"
    one = decision.listing
    return (str(one.name.step), size_text(one.size), words, decision.why, short(one.path))


def decision_as_plain(decision: PruneDecision, *, is_done: bool) -> dict[str, Any]:
    """For JSON: a row of `prune`."""
    one = decision.listing
    plain = {
        "name": short(one.path), "path": one.path, "step": one.name.step, "bytes": one.size,
        "goes": decision.goes, "why": decision.why,
    }  # fmt: skip
    return {**plain, "is_gone": decision.is_gone} if is_done and decision.goes else plain


def row(one: CheckpointListing, root: str) -> Sequence[str]:
    """A row of the table of `ls` of a directory."""
    name = one.path.removeprefix(f"{root.rstrip('/')}/")
    checkpoint = one.checkpoint
    if checkpoint is None:
        return (
            str(one.name.step),
            one.state.value,
            "-",
            size_text(one.size),
            *"---",
            name,
        )
    number = str(one.name.step)
    return (
        f"set {number}" if file_sets.is_set(checkpoint) else number,
        one.state.value,
        str(checkpoint.world_size),
        size_text(one.size),
        clock_time(checkpoint.saved_ms / 1000),
        _writer(checkpoint),
        " ".join(f"{name}={value:.4g}" for name, value in checkpoint.metrics.items()) or "-",
        name,
    )


def _writer(checkpoint: Checkpoint) -> str:
    owner = checkpoint.writer.get("owner", "?")
    if owner.startswith("process-"):
        return f"{owner} on {checkpoint.writer.get('host', '?')}"
    return f"{owner} attempt {checkpoint.writer.get('attempt', '?')}"


def as_plain(fs: FileSystem, one: CheckpointListing) -> dict[str, Any]:
    """For JSON: a checkpoint directory, complete or not."""
    known = {} if one.checkpoint is None else facts(fs, one.checkpoint)
    own = {"name": short(one.path), "path": f"{fs.uri}{one.path}", "step": one.name.step}
    return {**known, **own, "state": one.state.value, "reason": one.reason, "bytes": one.size}


def facts(fs: FileSystem, checkpoint: Checkpoint) -> dict[str, Any]:
    """For JSON: the contents of a manifest."""
    return {
        "name": short(checkpoint.path),
        "path": f"{fs.uri}{checkpoint.path}",
        "step": checkpoint.step,
        "epoch": checkpoint.epoch,
        "world_size": checkpoint.world_size,
        "bytes": checkpoint.size,
        "saved_ms": checkpoint.saved_ms,
        "writer": dict(checkpoint.writer),
        "metrics": dict(checkpoint.metrics),
        "metadata": dict(checkpoint.metadata),
        "values": list(checkpoint.names),
    }


def short(path: str) -> str:
    """The name of a checkpoint."""
    return path.rpartition("/")[2]
